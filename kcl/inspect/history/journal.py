"""The journal: the work of all processes, kept across runs: counters, uses of entries, last misses, late switches.

A process leaves one record when it ends (`kcl.inspect.history.records`). A process that finds many records folds them
into one, alone under a lock. A record counts no more once its digest is among the sources of another record: a process
that folds may die before it has removed the folded records. No right answer depends on the journal, so no fault passes
this module.

No record says which processes make one run. Processes that ran the same file and were alive at the same time count as
one run: forked and spawned workers, and the ranks of MPI.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kcl.base import events
from kcl.base.events import OTHERS, Consumer
from kcl.base.settings import trust
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import digest_of
from kcl.cache.stores.directory import Directory
from kcl.caches.late_switches import LateSwitch
from kcl.errors import DamagedEntry
from kcl.inspect.history import records
from kcl.inspect.history.records import COUNTERS, DIGITS, FAULTS, FORMAT, Counters, merged, numbers

if sys.platform != "win32":  # no flock on Windows: there the records stay as they are
    import fcntl

EARLIER = "earlier"
MANY_READ = 16  # records: from this number on a reader folds them
_ROWS, _USES, _MISSED, _LATE, _DRIVERS = 10_000, 20_000, 1024, 64, 32
AGE = 7 * 86400.0  # seconds: a late switch is reported for this time

Record = dict[str, Any]
Rows = dict[tuple[str, str, str], Counters]  # by day, layer and kernel
Tallies = dict[tuple[str, str], Counters]  # by layer and kernel


class JournalMiss(NamedTuple):
    """A look-up that was no hit; `process` is the id of the run, `key` is None if it was not known.

    The key is that of the row that was made, or else the key that was looked for. `texts` are the parts of an entry
    that explain a miss, if the miss stored no entry. `seconds` is the time of the look-up and the work. `parameters`
    are the texts of the parameters of the recipe, None if they are not known.
    """

    time: float
    process: str
    layer: str
    kernel: str
    outcome: str
    reason: str
    key: Key | None
    driver: str = ""
    pid: int = 0
    texts: Mapping[str, bytes] = {}
    seconds: float = 0.0
    parameters: Mapping[str, str] | None = None


class EntryUse(NamedTuple):
    """The hits of an entry: their number, the last one, in seconds since the epoch, and the seconds taken and saved."""

    uses: int
    last: float
    seconds: float = 0.0
    saved: float = 0.0


_UNUSED = EntryUse(0, 0.0)


class RunRecord(NamedTuple):
    """The record of one process: its name in the journal, the file that it ran, its counters, and the used entries.

    `began`, with the first look-up, and `ended` are in seconds since the epoch. `remarks` are those of its report about
    loopy. `uses` is by the first digits of the digests of the entries. `asked` gives, by the same digits, the kernel
    and parameters for which an entry was used.
    """

    name: str
    driver: str
    pid: int
    began: float
    ended: float
    remarks: Sequence[str]
    asked: Mapping[str, Consumer]
    tallies: Tallies
    uses: dict[str, EntryUse]


class Note(NamedTuple):
    """A switch that came too late: the file of the program, and the last time, in seconds since the epoch."""

    time: float
    driver: str
    late: LateSwitch


def fold() -> None:
    """Fold all records into one, unless another process does so. Raises nothing."""
    try:
        _fold(records.store())
    except FAULTS as error:
        events.logger().info("the statistics cannot be folded: %r", error)


def totals() -> dict[str, Counters]:
    """Return the counters of each layer over all runs."""
    return merged({layer: row} for (_day, layer, _kernel), row in rows().items())


def rows() -> Rows:
    """Return the counters by day ("2026-03-31", of older rows only the month or "earlier"), layer and kernel."""
    return merged(map(_rows, _read()))


def uses() -> dict[str, EntryUse]:
    """Return the uses of each entry, by the first `DIGITS` digits of its digest."""
    return _merged_uses(map(_uses, _read()))


def use(uses: Mapping[str, EntryUse], digest: str) -> EntryUse:
    """Return the use of the entry with a digest; without a time if it was never used."""
    return uses.get(digest[:DIGITS], _UNUSED)


def last_misses() -> list[JournalMiss]:
    """Return the last look-ups that were no hit, oldest first, including those of this process."""
    found = [missed for record in _read() for missed in _missed(record)]
    return sorted([*found, *of_this_run()], key=lambda missed: missed.time)


def of_this_run() -> list[JournalMiss]:
    """Return the unwritten look-ups of this process that were no hits."""
    return [JournalMiss(*fields) for fields in records.missed(events.noted())]


def last_run(driver: str | None = None) -> list[RunRecord]:
    """Return the processes of the last run of a driver, or of any; empty if none is known."""
    return last(_ran(_read()), driver)


def ended() -> dict[str, float]:
    """Return the end of each known process, by its name."""
    return {one.name: one.ended for one in sorted(_ran(_read()), key=lambda one: one.ended)}


def late() -> list[Note]:
    """Return the switches of the last week that came too late, newest first; a repeated switch appears once."""
    return _late(_read())


def fault() -> str:
    """Say why the records cannot be read; empty if they can be read or do not exist. Raises nothing."""
    try:
        next(records.store().scan(), None)
    except FAULTS as error:
        return str(error)
    return ""


def reset() -> None:
    """Forget all statistics and misses; raises `OSError` or `CacheFault` if the files cannot be removed."""
    events.taken()
    store = records.store()
    if next(store.scan(), None) is not None:
        with _alone(store.location, patience=1.0):
            for place in list(store.scan()):
                store.delete(place)


def last(found: Iterable[RunRecord], driver: str | None = None) -> list[RunRecord]:
    """Return the processes of the last run of a driver, or of any, the one that ended last first."""
    whole: dict[str, RunRecord] = {}
    for one in found:  # a process may have left several records
        whole[one.name] = _added(whole[one.name], one) if one.name in whole else one
    run: list[RunRecord] = []
    for one in sorted(whole.values(), key=lambda one: -one.ended):
        if not run and driver in (None, one.driver):
            run, begin = [one], one.began
        elif run and one.driver == run[0].driver and one.ended >= begin:
            run.append(one)
            begin = min(begin, one.began)
    return run


def kept(found: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the last runs of the drivers that ran last: a folded record keeps these."""
    found = sorted(found, key=lambda one: one.ended)
    drivers = list(dict.fromkeys(one.driver for one in reversed(found)))[:_DRIVERS]
    return [one for driver in drivers for one in last(found, driver)]


def _added(one: RunRecord, other: RunRecord) -> RunRecord:
    """Add up two records of one process; the later remarks count."""
    before, after = sorted((one, other), key=lambda each: each.ended)
    return before._replace(
        began=min(one.began, other.began),
        ended=after.ended,
        remarks=after.remarks,
        asked={**after.asked, **before.asked},
        tallies=merged([one.tallies, other.tallies]),
        uses=_merged_uses([one.uses, other.uses]),
    )


def _merged_uses(found: Iterable[Mapping[str, EntryUse]]) -> dict[str, EntryUse]:
    """Add up the uses of the same entries."""
    total: dict[str, EntryUse] = {}
    for digest, used in (pair for uses in found for pair in uses.items()):
        count, last, seconds, saved = total.get(digest, _UNUSED)
        total[digest] = EntryUse(count + used.uses, max(last, used.last), seconds + used.seconds, saved + used.saved)
    return total


def _rows(record: Record) -> Rows:
    return {tuple(row[:3]): dict(zip(COUNTERS, row[3:], strict=True)) for row in record["days"]}


def _uses(record: Record) -> dict[str, EntryUse]:
    return {digest: EntryUse(*used) for digest, used in record["uses"].items()}


def _missed(record: Record) -> Iterator[JournalMiss]:
    parts = [Part(*part) for part in record["parts"]]
    for fields in record["missed"]:
        key = None if fields[6] is None else Key(parts[index] for index in fields[6])
        texts = {name: text.encode() for name, text in fields[9].items()}
        yield JournalMiss._make([*fields[:6], key, *fields[7:9], texts, *fields[10:]])


def _ran(found: Iterable[Record]) -> Iterator[RunRecord]:
    for record in found:
        for *fields, asked, tallies, uses in (
            run if len(run) > 7 else [*run, [row[1:] for row in record["days"]], record["uses"]]
            for run in record["runs"]
        ):
            by = {digest: Consumer(kernel, tuple(parameters)) for digest, (kernel, parameters) in asked.items()}
            counted = {(layer, kernel): dict(zip(COUNTERS, row, strict=True)) for layer, kernel, *row in tallies}
            yield RunRecord._make([*fields, by, counted, {digest: EntryUse(*used) for digest, used in uses.items()}])


def _late(found: Iterable[Record]) -> list[Note]:
    notes = [Note(moment, driver, LateSwitch(*late)) for record in found for moment, driver, *late in record["late"]]
    newest = {note[1:]: note for note in sorted(notes) if note.time > time.time() - AGE}
    return sorted(newest.values(), reverse=True)[:_LATE]


def _read() -> list[Record]:
    """Return the records that count; fold them if they are many. Raises nothing."""
    try:
        live, _useless = _parted(records.store())
        if len(live) > MANY_READ:
            fold()
        return list(live.values())
    except FAULTS as error:
        events.logger().info("the statistics cannot be read: %r", error)
        return []


def _parted(store: Directory) -> tuple[dict[str, Record], list[str]]:
    """Return the records that count by address, and the addresses of the others: folded ones, damaged ones."""
    for _ in range(3):
        found, damaged, vanished = _scanned(store)
        if not vanished:  # else another process may have folded the records into a new one that the scan missed
            break
    folded = {digest for record in found.values() for digest in record["sources"]}
    live = {place: record for place, record in found.items() if digest_of(place) not in folded}
    return live, [*damaged, *(place for place in found if place not in live)]


def _scanned(store: Directory) -> tuple[dict[str, Record], list[str], bool]:
    """Return the records by address, the addresses of damaged ones, and whether one vanished during the scan."""
    found, damaged, vanished = dict[str, Record](), list[str](), False
    for place in store.scan():
        try:
            blob = store.get(place)
        except DamagedEntry:
            damaged.append(place)
            continue
        if blob is None:
            vanished = True
        elif hashlib.sha256(blob).hexdigest() != digest_of(place):
            damaged.append(place)
        elif blob.startswith(b'{"format":%d,' % FORMAT):  # else of another kcl
            found[place] = json.loads(blob)
    return found, damaged, vanished


def _fold(store: Directory) -> None:
    """Fold all records into one, unless another process does so."""
    with _alone(store.location) as mine:
        if not mine:
            return
        live, useless = _parted(store)
        for place in useless:  # delete folded records before the record that lists them
            store.delete(place)
        held = list(live.values())
        used = sorted(_merged_uses(map(_uses, held)).items(), key=lambda pair: pair[1].last)[-_USES:]
        missed = sorted((one for record in held for one in _missed(record)), key=lambda one: one.time)
        records.put(
            store,
            sources=[digest_of(place) for place in live],
            days=[[*place, *numbers(row)] for place, row in _coarser(merged(map(_rows, held))).items()],
            uses=dict(used),
            missed=missed[-_MISSED:],
            runs=[
                [*one[:7], [[*place, *numbers(row)] for place, row in one.tallies.items()], one.uses]
                for one in kept(_ran(held))
            ],
            late=[[*note[:2], *note.late] for note in _late(held)],
        )
        for place in live:
            store.delete(place)


@contextmanager
def _alone(folder: str, patience: float = 0.0) -> Iterator[bool]:
    """Hold the lock for removing records; yield False if another process holds it. A dead process holds no lock."""
    descriptor, end = trust.opened(os.path.join(folder, "lock"), trust.LOCK), time.monotonic() + patience
    try:
        while not (mine := _locked(descriptor)) and time.monotonic() < end:
            time.sleep(0.01)
        yield mine
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _coarser(found: Rows) -> Rows:
    """Bound the number of rows: merge old days into months, else all days and kernels of a layer."""
    lately = time.strftime("%Y-%m-%d", time.localtime(time.time() - 14 * 86400))
    if len(found) > _ROWS:
        found = merged(
            {(day if day >= lately else day[:7], layer, kernel): row} for (day, layer, kernel), row in found.items()
        )
    if len(found) > _ROWS:
        found = merged({(EARLIER, layer, OTHERS): row} for (_day, layer, _kernel), row in found.items())
    return found
