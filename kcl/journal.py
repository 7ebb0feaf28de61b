"""The journal: what all processes looked up, kept across runs: counters, uses of entries, and the last misses.

A process leaves one record when it ends, a file of its own that is written once, so that any number of processes
write at once and lose nothing. Whoever finds many of them folds them into one, alone under a lock.

    record = head rows uses missed    one line of JSON each, so that a reader of totals parses the first alone
    head   = {"format": 1, "sources": [digest of each record folded into this one], "totals": {layer: counters}}
    rows   = [[day, layer, kernel, counter...]...]
    uses   = {first digits of an entry's digest: [number of hits, time of the last]}
    missed = {"parts": [[name, value]...], "missed": [[field...]...]}    keys are lists of indices into "parts"

A record whose digest is among the sources of another counts no more: a process that folds may die before it has
removed what it folded. Nothing here is needed for a right answer, so no fault passes this module.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from kcl import events, option
from kcl.errors import CacheFault, DamagedEntry
from kcl.events import OTHERS, Noted
from kcl.key import Key, Part
from kcl.stores.base import address, digest_of
from kcl.stores.directory import Directory

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 1
COUNTERS = ("hits", "misses", "bypassed", "errors", "seconds", "saved", "bytes")
DIGITS = 32  # of a digest, where it stands for an entry in statistics
EARLIER = "earlier"
MANY_WRITTEN, MANY_READ = 64, 16  # records: then one who writes, or reads, folds them
_ROWS, _USES, _MISSED = 10_000, 20_000, 1024
_FAULTS = (OSError, CacheFault, ValueError, TypeError, KeyError, IndexError, AttributeError)

Counters = dict[str, float]


class Row(NamedTuple):
    """What a kernel did in a layer on a day: "2026-03-31", of older rows the month alone or "earlier"."""

    day: str
    layer: str
    kernel: str
    counters: Counters


class Used(NamedTuple):
    """How often an entry was a hit, and when last, in seconds since the epoch."""

    uses: int
    last: float


class Missed(NamedTuple):
    """A look-up that was no hit; `process` is the id of the run, `key` is None where it was not known.

    The key is that of the row that was made; where none was, the one that was looked for.
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


class Record(NamedTuple):
    """What one process, or several, had to say."""

    totals: dict[str, Counters]
    rows: dict[tuple[str, str, str], Counters]
    uses: dict[str, Used]
    missed: list[Missed]


class _Lines(NamedTuple):
    """A record of which the head alone is parsed; the other lines are when they are asked for."""

    head: dict[str, Any]
    rest: list[bytes]

    def rows(self) -> dict[tuple[str, str, str], Counters]:
        return {tuple(row[:3]): dict(zip(COUNTERS, row[3:], strict=True)) for row in json.loads(self.rest[0])}

    def uses(self) -> dict[str, Used]:
        return {digest: Used(*pair) for digest, pair in json.loads(self.rest[1]).items()}

    def missed(self) -> list[Missed]:
        document = json.loads(self.rest[2])
        parts = [Part(*part) for part in document["parts"]]
        found = []
        for fields in document["missed"]:
            key = None if fields[6] is None else Key(parts[index] for index in fields[6])
            found.append(Missed._make([*fields[:6], key, *fields[7:]]))
        return found


_run = ("", 0)


def flush() -> None:
    """Write what this process collected so far; nothing where every layer that was asked is off. Raises nothing."""
    found = events.taken()
    asked = any(row["hits"] + row["misses"] + row["errors"] for row in found.tallies.values())
    if not asked and all(noted.event.reason.startswith("off: ") for noted in found.noted):
        return
    try:
        store = _store()
        _put(store, _of_process(found), [])
        if sum(1 for _ in store.scan()) > MANY_WRITTEN:
            _fold(store)
    except _FAULTS as error:
        # Whatever hinders this hinders the layers too, which have said so.
        events.logger.info("the statistics of this process are lost: %r", error)


def totals() -> dict[str, Counters]:
    """Return the counters of each layer over all runs."""
    found: dict[str, Counters] = {}
    for lines in _read():
        _merge(found, lines.head["totals"])
    return found


def rows() -> list[Row]:
    """Return the counters by day, layer and kernel, oldest first."""
    merged: dict[tuple[str, str, str], Counters] = {}
    for lines in _read():
        _merge(merged, lines.rows())
    return [Row(*place, merged[place]) for place in sorted(merged, key=lambda place: (place[0] != EARLIER, place))]


def uses() -> dict[str, Used]:
    """Return how often each entry was used, by the first `DIGITS` digits of its digest."""
    found: dict[str, Used] = {}
    for lines in _read():
        _merge_uses(found, lines.uses())
    return found


def last_misses() -> list[Missed]:
    """Return the last look-ups that were no hit, oldest first, those of this process included."""
    found = [missed for lines in _read() for missed in lines.missed()]
    return sorted([*found, *of_this_run()], key=lambda missed: missed.time)


def of_this_run() -> list[Missed]:
    """Return the look-ups of this process that were no hits and are not written yet."""
    return _missed_of(events.collected().noted)


def reset() -> None:
    """Forget all statistics and misses; raises `OSError` or `CacheFault` where the files cannot be removed."""
    events.taken()
    store = _store()
    if next(store.scan(), None) is not None:
        with _alone(store.location, patience=1.0):
            for place in list(store.scan()):
                store.delete(place)


def _store() -> Directory:
    return Directory(os.path.join(option.folder("kcl"), "journal"))


def _put(store: Directory, record: Record, sources: list[str]) -> None:
    blob = _packed(record, sources)
    store.put(address(hashlib.sha256(blob).hexdigest(), label="run"), blob)


def _read() -> list[_Lines]:
    """Return the records that count; folds them where they are many. Raises nothing."""
    try:
        store = _store()
        live = _live(store)
        if len(live) > MANY_READ:
            with suppress(*_FAULTS):
                _fold(store)
        return list(live.values())
    except _FAULTS as error:
        events.logger.info("the statistics cannot be read: %r", error)
        return []


def _live(store: Directory) -> dict[str, _Lines]:
    """Return the records that count, by address."""
    return _parted(store)[0]


def _parted(store: Directory) -> tuple[dict[str, _Lines], list[str]]:
    """Return the records that count by address, and the addresses of those that are folded into one of them."""
    found: dict[str, _Lines] = {}
    for _ in range(3):
        found, vanished = _scanned(store)
        if not vanished:  # else somebody has folded them meanwhile into one that may not have been there yet
            break
    folded = {digest for lines in found.values() for digest in lines.head["sources"]}
    live = {place: lines for place, lines in found.items() if digest_of(place) not in folded}
    return live, [place for place in found if place not in live]


def _scanned(store: Directory) -> tuple[dict[str, _Lines], bool]:
    found, vanished = {}, False
    for place in store.scan():
        try:
            blob = store.get(place)
        except DamagedEntry:
            continue
        if blob is None:
            vanished = True
        elif hashlib.sha256(blob).hexdigest() == digest_of(place):
            head, *rest = blob.split(b"\n")
            lines = _Lines(json.loads(head), rest)
            if lines.head["format"] == FORMAT:
                found[place] = lines
    return found, vanished


def _fold(store: Directory) -> None:
    """Make one record of all, unless somebody else is at it."""
    with _alone(store.location) as mine:
        if not mine:
            return
        live, folded = _parted(store)
        for place in folded:  # must be gone before the record goes that says so
            store.delete(place)
        _put(store, _merged(live.values()), [digest_of(place) for place in live])
        for place in live:
            store.delete(place)


@contextmanager
def _alone(folder: str, patience: float = 0.0) -> Iterator[bool]:
    """Hold the lock of those who remove records; False where somebody else does. A dead holder holds nothing."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(os.path.join(folder, "lock"), flags, 0o600)
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


def _of_process(found: events.Collected) -> Record:
    day = time.strftime("%Y-%m-%d")
    counted: dict[str, Counters] = {}
    for (layer, _kernel), row in found.tallies.items():
        _merge(counted, {layer: row})
    return Record(
        counted,
        {(day, *place): row for place, row in found.tallies.items()},
        {digest[:DIGITS]: Used(*used) for digest, used in found.uses.items()},
        _missed_of(found.noted),
    )


def _missed_of(noted: Iterable[Noted]) -> list[Missed]:
    global _run
    if _run[1] != os.getpid():
        _run = (os.urandom(8).hex(), os.getpid())
    driver = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    found = []
    for moment, event, key in noted:
        said = event.layer, event.kernel, event.outcome, event.reason
        found.append(Missed(moment, _run[0], *said, key, driver, _run[1]))
    return found


def _packed(record: Record, sources: list[str]) -> bytes:
    # Two records are never the same bytes, or one of them would not count.
    head = {"format": FORMAT, "id": os.urandom(8).hex(), "sources": sources, "totals": record.totals}
    counted = [[*place, *(row[name] for name in COUNTERS)] for place, row in record.rows.items()]
    indices: dict[Part, int] = {}
    listed = []
    for missed in record.missed:
        parts = None if missed.key is None else [indices.setdefault(part, len(indices)) for part in missed.key.parts]
        listed.append([*missed[:6], parts, *missed[7:]])
    lines = head, counted, record.uses, {"parts": list(indices), "missed": listed}
    return b"\n".join(json.dumps(line, separators=(",", ":")).encode() for line in lines)


def _merged(live: Iterable[_Lines]) -> Record:
    merged = Record({}, {}, {}, [])
    for lines in live:
        _merge(merged.totals, lines.head["totals"])
        _merge(merged.rows, lines.rows())
        _merge_uses(merged.uses, lines.uses())
        merged.missed.extend(lines.missed())
    latest = sorted(merged.uses.items(), key=lambda pair: pair[1].last)[-_USES:]
    missed = sorted(merged.missed, key=lambda missed: missed.time)[-_MISSED:]
    return Record(merged.totals, _coarser(merged.rows), dict(latest), missed)


def _merge_uses(into: dict[str, Used], found: dict[str, Used]) -> None:
    for digest, (number, last) in found.items():
        before = into.get(digest)
        into[digest] = Used(before.uses + number, max(before.last, last)) if before else Used(number, last)


def _coarser(found: dict[tuple[str, str, str], Counters]) -> dict[tuple[str, str, str], Counters]:
    """Bound the number of rows: make months of days, the older ones first, then forget the time, then the kernel."""
    lately = time.strftime("%Y-%m-%d", time.localtime(time.time() - 14 * 86400))
    steps: list[Callable[[str], str]] = [lambda day: day if day >= lately else day[:7], lambda day: day[:7]]
    steps += [lambda _day: EARLIER] * 2
    for number, step in enumerate(steps):
        if len(found) <= _ROWS:
            break
        fewer: dict[tuple[str, str, str], Counters] = {}
        for (day, layer, kernel), row in found.items():
            _merge(fewer, {(step(day), layer, kernel if number < 3 else OTHERS): row})
        found = fewer
    return found


def _merge(into: dict[Any, Counters], rows: dict[Any, Counters]) -> None:
    """Add counters to those under the same name; the rows that are given are left as they are."""
    for place, row in rows.items():
        before = into.get(place)
        into[place] = {name: row[name] + before[name] if before else row[name] for name in COUNTERS}
