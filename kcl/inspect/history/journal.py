"""The journal: the work of the last processes: counters, uses of entries, last misses, late switches.

A process leaves one record when it ends (`kcl.inspect.history.records`). The youngest records are kept. No right answer
depends on the journal, so no fault passes this module.

No record says which processes make one run. Processes that ran the file of one path and were alive at the same time
count as one run: forked and spawned workers, and the ranks of MPI.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kcl.base import events
from kcl.cache.key import Key, Part
from kcl.foreign.late_switches import LateSwitch
from kcl.inspect.history import records
from kcl.inspect.history.records import COUNTERS, DIGITS, FAULTS, FORMAT, Counters, Record, merged

# The records that stay, and the bytes that they take, at most.
KEPT, ROOM = 384, 4 << 20
_LATE = 64
# Seconds for which a late switch is reported.
AGE = 7 * 86400.0

Rows = dict[tuple[str, str, str], Counters]  # by day, layer and kernel
Tallies = dict[tuple[str, str], Counters]  # by layer and kernel


class JournalMiss(NamedTuple):
    """A look-up that was no hit; `process` is the name of the process, `key` is None if it was not known.

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

    `driver` is the short name of the file, `program` its path.
    `began`, with the first look-up, and `ended` are in seconds since the epoch. `remarks` are those of its report about
    loopy. `uses` has the fields of an `EntryUse` by the first digits of the digests of the entries. `asked` gives, by
    the same digits, the kernel and parameters for which an entry was used.
    """

    name: str
    driver: str
    program: str
    pid: int
    began: float
    ended: float
    remarks: Sequence[str]
    asked: Mapping[str, events.Consumer]
    tallies: Tallies
    uses: Mapping[str, Sequence[Any]]


class Note(NamedTuple):
    """A switch that came too late: the file of the program, and the last time, in seconds since the epoch."""

    time: float
    driver: str
    program: str
    late: LateSwitch


def trim() -> None:
    """Remove the oldest records beyond a number and a size. Raises nothing."""
    with suppress(*FAULTS):
        store, room = records.store(), ROOM
        records_by_age = [
            (item.stat().st_mtime, item.stat().st_size, place) for place, item in store.items()
        ]
        for number, (_moment, size, place) in enumerate(sorted(records_by_age, reverse=True)):
            room -= size
            if number >= KEPT or room < 0:
                store.delete(place)


def rows() -> Rows:
    """Return the counters by day ("2026-03-31"), layer and kernel."""
    return merged(
        {(time.strftime("%Y-%m-%d", time.localtime(record["ended"])), *place): row}
        for record in _read()
        for place, row in _tallies(record).items()
    )


def uses() -> dict[str, EntryUse]:
    """Return the uses of each entry, by the first `DIGITS` digits of its digest."""
    total: dict[str, EntryUse] = {}
    for record in _read():
        for digest, (count, last, seconds, saved) in record["uses"].items():
            before = total.get(digest, _UNUSED)
            total[digest] = EntryUse(
                before.uses + count,
                max(before.last, last),
                before.seconds + seconds,
                before.saved + saved,
            )
    return total


def use(uses: Mapping[str, EntryUse], digest: str) -> EntryUse:
    """Return the use of the entry with a digest; without a time if it was never used."""
    return uses.get(digest[:DIGITS], _UNUSED)


def last_misses() -> list[JournalMiss]:
    """Return the last look-ups that were no hit, oldest first, including those of this process."""
    return sorted(
        (missed for record in _with_this() for missed in _missed(record)),
        key=lambda missed: missed.time,
    )


def of_this_run() -> tuple[RunRecord, list[JournalMiss]]:
    """Return the record of this process so far, and its look-ups that were no hits."""
    record = records.of_this_process()
    return _ran(record), list(_missed(record))


def last_run(driver: str | None = None) -> list[RunRecord]:
    """Return the processes of the last run of a driver, or of any, the one that ended last first; empty for none.

    `driver` is a short name or a path.
    """
    run: list[RunRecord] = []
    names = {driver, os.path.abspath(driver or "")}
    for process in sorted(map(_ran, _read()), key=lambda process: -process.ended):
        if not run and (driver is None or {process.driver, process.program} & names):
            run, begin = [process], process.began
        elif run and process.program == run[0].program and process.ended >= begin:
            run.append(process)
            begin = min(begin, process.began)
    return run


def asked(process: str) -> set[str]:
    """Return the kernels that a process asked for, or another process of its driver that was alive at the same time."""
    records_now = _with_this()
    return {
        kernel
        for own in [record for record in records_now if record["name"] == process]
        for record in records_now
        if record["program"] == own["program"]
        if record["ended"] >= own["began"] and record["began"] <= own["ended"]
        for _layer, kernel, *_ in record["tallies"]
    }


def late() -> list[Note]:
    """Return the switches of the last week that came too late, newest first; a repeated switch appears once."""
    notes = [
        Note(switch[0], record["driver"], record["program"], LateSwitch(*switch[1:]))
        for record in _read()
        for switch in record["late"]
    ]
    newest = {note[1:]: note for note in sorted(notes) if note.time > time.time() - AGE}
    return sorted(newest.values(), reverse=True)[:_LATE]


def fault() -> str:
    """Say why the records cannot be read; empty if they can be read or do not exist. Raises nothing."""
    try:
        next(records.store().scan(), None)
    except FAULTS as error:
        return str(error)
    return ""


def reset() -> None:
    """Forget all statistics and misses; raises `OSError` or `CacheFault` if the files cannot be removed."""
    records.begin()
    store = records.store()
    for place in list(store.scan()):
        store.delete(place)


def _tallies(record: Record) -> Tallies:
    return {
        (layer, kernel): dict(zip(COUNTERS, row, strict=True))
        for layer, kernel, *row in record["tallies"]
    }


def _missed(record: Record) -> Iterator[JournalMiss]:
    parts = [Part(*part) for part in record["parts"]]
    for moment, *fields, indices, texts, seconds, parameters in record["missed"]:
        yield JournalMiss._make(
            [
                moment,
                record["name"],
                *fields,
                None if indices is None else Key(parts[index] for index in indices),
                record["driver"],
                record["pid"],
                {name: text.encode() for name, text in texts.items()},
                seconds,
                parameters,
            ]
        )


def _ran(record: Record) -> RunRecord:
    consumers = {
        digest: (kernel, tuple(parameters))
        for digest, (kernel, parameters) in record["asked"].items()
    }
    return RunRecord._make(
        [
            *(record[name] for name in RunRecord._fields[:7]),
            consumers,
            _tallies(record),
            record["uses"],
        ]
    )


def _with_this() -> list[Record]:
    """Return the readable records, with that of this process as it is now."""
    own = records.of_this_process()
    return [*(record for record in _read() if record["name"] != own["name"]), own]


def _read() -> list[Record]:
    """Return the readable records. Raises nothing."""
    # Each process has a record of its own: folding them into one took a lock and 140 lines.
    readable: list[Record] = []
    with suppress(*FAULTS):
        store = records.store()
        for place in store.scan():
            try:
                blob = store.get(place) or b""
                # Other bytes are of another kcl, or of a record that is being removed.
                if blob.startswith(b'{"format":%d,' % FORMAT):
                    readable.append(json.loads(blob))
                    # Without a path the short name stands for it.
                    readable[-1].setdefault("program", readable[-1]["driver"])
            except FAULTS as error:
                events.logger().info("%s counts for nothing: %r", place, error)
    return readable
