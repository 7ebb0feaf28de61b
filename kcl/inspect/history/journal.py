"""The journal: the work of all processes, kept across runs: counters, uses of entries, last misses, late switches.

A process leaves one record when it ends (`kcl.inspect.history.records`). A process that finds many records folds them
into one, alone under a lock. A record counts no more once its digest is among the sources of another record: a process
that folds may die before it has removed the folded records. No right answer depends on the journal, so no fault passes
this module.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from kcl.base import events
from kcl.base.events import OTHERS
from kcl.base.settings import trust
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import digest_of
from kcl.cache.stores.directory import Directory
from kcl.caches.late_switches import LateSwitch
from kcl.errors import DamagedEntry
from kcl.inspect.history import records, runs
from kcl.inspect.history.records import COUNTERS, DIGITS, FAULTS, FORMAT, Counters, Rows, merged
from kcl.inspect.history.runs import EntryUse, RunRecord

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

EARLIER = "earlier"
MANY_READ = 16  # records: from this number on a reader folds them
_ROWS, _USES, _MISSED, _LATE = 10_000, 20_000, 1024, 64
AGE = 7 * 86400.0  # seconds: a late switch is reported for this time


class DayRow(NamedTuple):
    """The counters of a kernel in a layer on a day: "2026-03-31", for older rows only the month or "earlier"."""

    day: str
    layer: str
    kernel: str
    counters: Counters


class JournalMiss(NamedTuple):
    """A look-up that was no hit; `process` is the id of the run, `key` is None where it was not known.

    The key is that of the row that was made, or else the key that was looked for. `texts` are the parts of an entry
    that explain a miss, where the miss stored no entry. `seconds` is the time of the look-up and the work. `parameters`
    are the texts of the parameters of the recipe, None where they are not known.
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


class Note(NamedTuple):
    """A switch that came too late: the file of the program, and the last time, in seconds since the epoch."""

    time: float
    driver: str
    late: LateSwitch


class _Lines(NamedTuple):
    """A record of which only the head is parsed; the other lines are parsed on request."""

    head: dict[str, Any]
    rest: list[bytes]

    def rows(self) -> Rows:
        return {tuple(row[:3]): dict(zip(COUNTERS, row[3:], strict=True)) for row in json.loads(self.rest[0])}

    def uses(self) -> dict[str, EntryUse]:
        return {digest: EntryUse(*pair) for digest, pair in json.loads(self.rest[1]).items()}

    def missed(self) -> list[JournalMiss]:
        document = json.loads(self.rest[2])
        parts = [Part(*part) for part in document["parts"]]
        told = document.get("texts", {})  # records of an earlier kcl have none
        found = []
        for number, fields in enumerate(document["missed"]):
            key = None if fields[6] is None else Key(parts[index] for index in fields[6])
            texts = {name: text.encode() for name, text in told.get(str(number), {}).items()}
            late = [*fields[9:11], *(0.0, None)[len(fields[9:11]) :]]  # an earlier kcl left none, or only the first
            found.append(JournalMiss._make([*fields[:6], key, *fields[7:9], texts, *late]))
        return found

    def ran(self) -> list[RunRecord]:
        """Return the known processes: the one that wrote the record, or those of the last runs."""
        told = json.loads(self.rest[3]) if len(self.rest) > 3 else []  # records of an earlier kcl have none
        tallies = merged({(layer, kernel): row} for (_day, layer, kernel), row in self.rows().items())
        more = json.loads(self.rest[4]) if len(self.rest) > 4 else {}
        return [runs.unpacked(fields, tallies, self.uses(), more.get(fields[0], ((), {}))) for fields in told]

    def late(self) -> list[Note]:
        told = json.loads(self.rest[5]) if len(self.rest) > 5 else []  # records of an earlier kcl have none
        return [Note(moment, driver, LateSwitch(*fields)) for moment, driver, *fields in told]


def flush() -> None:
    """Write the collected statistics of this process; write nothing where every used layer is off. Raises nothing."""
    if records.write():
        fold()


def fold() -> None:
    """Fold all records into one, unless another process does so. Raises nothing."""
    try:
        _fold(records.store())
    except FAULTS as error:
        events.logger().info("the statistics cannot be folded: %r", error)


def totals() -> dict[str, Counters]:
    """Return the counters of each layer over all runs."""
    return merged(lines.head["totals"] for lines in _read())


def rows() -> list[DayRow]:
    """Return the counters by day, layer and kernel, oldest first."""
    found: Rows = merged(lines.rows() for lines in _read())
    return [DayRow(*place, found[place]) for place in sorted(found, key=lambda place: (place[0] != EARLIER, place))]


def uses() -> dict[str, EntryUse]:
    """Return the uses of each entry, by the first `DIGITS` digits of its digest."""
    return runs.merged_uses(lines.uses() for lines in _read())


def use(uses: Mapping[str, EntryUse], digest: str) -> EntryUse:
    """Return the use of the entry with a digest; without a time where it was never used."""
    return uses.get(digest[:DIGITS], runs.UNUSED)


def last_misses() -> list[JournalMiss]:
    """Return the last look-ups that were no hit, oldest first, including those of this process."""
    found = [missed for lines in _read() for missed in lines.missed()]
    return sorted([*found, *of_this_run()], key=lambda missed: missed.time)


def last_run(driver: str | None = None) -> list[RunRecord]:
    """Return the processes of the last run of a driver, or of any; empty where none is known."""
    return runs.last(_ran(), driver)


def ended() -> dict[str, float]:
    """Return the end of each known process, by its name."""
    found: dict[str, float] = {}
    for one in _ran():
        found[one.name] = max(one.ended, found.get(one.name, 0.0))
    return found


def late() -> list[Note]:
    """Return the switches of the last week that came too late, newest first; a repeated switch appears once."""
    return _late(_read())


def of_this_run() -> list[JournalMiss]:
    """Return the unwritten look-ups of this process that were no hits."""
    return [JournalMiss(*fields) for fields in records.missed(events.noted())]


def fault() -> str:
    """Say why the records cannot be read; empty where they can be read or do not exist. Raises nothing."""
    try:
        next(records.store().scan(), None)
    except FAULTS as error:
        return str(error)
    return ""


def reset() -> None:
    """Forget all statistics and misses; raises `OSError` or `CacheFault` where the files cannot be removed."""
    events.taken()
    store = records.store()
    if next(store.scan(), None) is not None:
        with _alone(store.location, patience=1.0):
            for place in list(store.scan()):
                store.delete(place)


def _ran() -> list[RunRecord]:
    return [one for lines in _read() for one in lines.ran()]


def _late(records: Iterable[_Lines]) -> list[Note]:
    notes = sorted(note for lines in records for note in lines.late() if note.time > time.time() - AGE)
    newest = {note[1:]: note for note in notes}
    return sorted(newest.values(), reverse=True)[:_LATE]


def _read() -> list[_Lines]:
    """Return the records that count; fold them where they are many. Raises nothing."""
    try:
        store = records.store()
        live, _useless = _parted(store)
        if len(live) > MANY_READ:
            fold()
        return list(live.values())
    except FAULTS as error:
        events.logger().info("the statistics cannot be read: %r", error)
        return []


def _parted(store: Directory) -> tuple[dict[str, _Lines], list[str]]:
    """Return the records that count by address, and the addresses of the others: folded ones, damaged ones."""
    for _ in range(3):
        found, damaged, vanished = _scanned(store)
        if not vanished:  # else another process may have folded the records into a new one that the scan missed
            break
    folded = {digest for lines in found.values() for digest in lines.head["sources"]}
    live = {place: lines for place, lines in found.items() if digest_of(place) not in folded}
    return live, [*damaged, *(place for place in found if place not in live)]


def _scanned(store: Directory) -> tuple[dict[str, _Lines], list[str], bool]:
    """Return the records by address, the addresses of damaged ones, and whether one vanished during the scan."""
    found, damaged, vanished = {}, [], False
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
        else:
            head, *rest = blob.split(b"\n")
            lines = _Lines(json.loads(head), rest)
            if lines.head["format"] == FORMAT:
                found[place] = lines
    return found, damaged, vanished


def _fold(store: Directory) -> None:
    """Fold all records into one, unless another process does so."""
    with _alone(store.location) as mine:
        if not mine:
            return
        live, useless = _parted(store)
        for place in useless:  # delete folded records before the record that lists them
            store.delete(place)
        totals = merged(lines.head["totals"] for lines in live.values())
        rows = _coarser(merged(lines.rows() for lines in live.values()))
        uses = runs.merged_uses(lines.uses() for lines in live.values())
        latest = sorted(uses.items(), key=lambda pair: pair[1].last)[-_USES:]
        missed = sorted((one for lines in live.values() for one in lines.missed()), key=lambda one: one.time)
        ran = runs.kept([one for lines in live.values() for one in lines.ran()])
        sources = [digest_of(place) for place in live]
        told = {one.name: runs.told(one) for one in ran}
        late = [[*note[:2], *note.late] for note in _late(live.values())]
        records.put(store, totals, rows, dict(latest), missed[-_MISSED:], sources, map(runs.packed, ran), told, late)
        for place in live:
            store.delete(place)


@contextmanager
def _alone(folder: str, patience: float = 0.0) -> Iterator[bool]:
    """Hold the lock for removing records; yield False where another process holds it. A dead process holds no lock."""
    descriptor = os.open(os.path.join(folder, "lock"), trust.LOCK, 0o600)
    try:
        end = time.monotonic() + patience
        while not (mine := _locked(descriptor)) and time.monotonic() < end:
            time.sleep(0.01)
        yield mine
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _coarser(found: Rows) -> Rows:
    """Bound the number of rows: merge days into months, the older ones first, then drop the time, then the kernel."""
    lately = time.strftime("%Y-%m-%d", time.localtime(time.time() - 14 * 86400))
    steps: list[Callable[[str], str]] = [lambda day: day if day >= lately else day[:7], lambda day: day[:7]]
    steps += [lambda _day: EARLIER] * 2
    for number, step in enumerate(steps):
        if len(found) <= _ROWS:
            break
        found = merged(
            {(step(day), layer, kernel if number < 3 else OTHERS): row} for (day, layer, kernel), row in found.items()
        )
    return found
