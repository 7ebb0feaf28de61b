"""The journal: the work of the last processes: counters, uses of entries, last misses, late switches.

A process leaves one record when it ends (`kcl.inspect.history.records`). Only the youngest records are kept. No result of
a kernel depends on the journal, so this module raises no error.

No record says which processes make one run. Processes that ran the file of one path and were alive at the same time
count as one run: forked and spawned workers, and the ranks of MPI.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from kcl.base import events
from kcl.base.events import Event, MissNote
from kcl.base.text.tables import Column, Columns
from kcl.cache.key import Key, Part
from kcl.inspect.history import records
from kcl.inspect.history.records import (
    COUNTERS,
    DIGITS,
    FAULTS,
    FORMAT,
    SELDOM,
    Counters,
    Record,
    merge,
)

# The records that stay, and the bytes that they take, at most.
KEPT, ROOM = 384, 4 << 20
_LATE = 64
# Seconds for which a late switch is reported.
AGE = 7 * 86400.0

Rows = dict[tuple[str, str, str], Counters]  # by day, layer and kernel
# The columns of the look-ups by their outcome in a table of counters, which reports and `kcl stats` share.
_COLUMNS: Columns[Mapping[str, Any]] = (
    (Column("hits"), lambda row: str(int(row["hits"]))),
    (Column("misses"), lambda row: str(int(row["misses"]))),
    (Column("defaults", 4), lambda row: str(int(row["defaults"]))),
    (Column("bypassed", 3), lambda row: str(int(row["bypassed"]))),
    (Column("errors", 2), lambda row: str(int(row["errors"]))),
)
# The number of hits of an entry, and the time of the last one, 0 without any.
Use = tuple[int, float]


def trim() -> None:
    """Remove the oldest records until their number and size are within the limits. Raises nothing."""
    with suppress(*FAULTS):
        store, room = records.open_store(), ROOM
        files = [(item.stat(), place) for place, item in store.items()]
        ages = [(status.st_mtime, status.st_size, place) for status, place in files]
        for number, (_moment, size, place) in enumerate(sorted(ages, reverse=True)):
            room -= size
            if number >= KEPT or room < 0:
                store.delete(place)


def count_by_day() -> Rows:
    """Return the counters by day ("2026-03-31"), layer and kernel."""
    return merge(
        {(time.strftime("%Y-%m-%d", time.localtime(record["ended"])), *place): row}
        for record in _read_records()
        for place, row in tallies(record).items()
    )


def find_columns(rows: Collection[Mapping[str, Any]]) -> Columns[Mapping[str, Any]]:
    """Return the columns of the outcomes, without the seldom one if no row has counted it."""
    is_seen = any(row[SELDOM] for row in rows)
    return [column for column in _COLUMNS if is_seen or column[0].title != SELDOM]


def read_uses() -> dict[str, Use]:
    """Return the uses of each entry, by the first `DIGITS` digits of its digest."""
    total: dict[str, Use] = {}
    for record in _read_records():
        for digest, (count, last, *_seconds) in record["uses"].items():
            before = total.get(digest, (0, 0.0))
            total[digest] = before[0] + count, max(before[1], last)
    return total


def find_use(uses: Mapping[str, Use], digest: str) -> Use:
    """Return the use of the entry with a digest."""
    return uses.get(digest[:DIGITS], (0, 0.0))


def last_misses() -> list[MissNote]:
    """Return the last look-ups that were no hit, oldest first, including those of this process."""
    own = records.describe_process()
    others = [record for record in _read_records() if record["name"] != own["name"]]
    missed = [miss for record in (*others, own) for miss in _read_misses(record)]
    return sorted(missed, key=lambda miss: miss.time)


def of_this_run() -> tuple[Record, list[MissNote]]:
    """Return the record of this process so far, and its look-ups that were no hits."""
    record = records.describe_process()
    return record, list(_read_misses(record))


def last_run(driver: str | None = None) -> list[Record]:
    """Return the processes of the last run of a driver, or of any, the one that ended last first; empty for none.

    `driver` is a short name or a path.
    """
    run: list[Record] = []
    names = {driver, os.path.abspath(driver or "")}
    for record in sorted(_read_records(), key=lambda record: -record["ended"]):
        if not run and (driver is None or {record["driver"], record["program"]} & names):
            run, begin = [record], record["began"]
        elif run and record["program"] == run[0]["program"] and record["ended"] >= begin:
            run.append(record)
            begin = min(begin, record["began"])
    return run


def find_late() -> list[dict[str, Any]]:
    """Return the switches of the last week that came too late, newest first; a repeated switch appears once.

    Each has the members of a late switch, the `driver` and its path `program`, and the `time` of the last one.
    """
    notes = [
        {"time": moment, "driver": record["driver"], "program": record["program"], **switch}
        for record in _read_records()
        for moment, switch in record["late"]
        if moment > time.time() - AGE
    ]
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for note in sorted(notes, key=lambda note: -note["time"]):
        _time, *same = note.values()
        newest.setdefault(tuple(same), note)
    return [*newest.values()][:_LATE]


def find_fault() -> str:
    """Say why the records cannot be read; empty if they can be read or do not exist. Raises nothing."""
    try:
        next(records.open_store().scan(), None)
    except FAULTS as error:
        return str(error)
    return ""


def reset() -> None:
    """Forget all statistics and misses; raises `OSError` or `CacheFault` if the files cannot be removed."""
    records.begin()
    store = records.open_store()
    for place in list(store.scan()):
        store.delete(place)


def tallies(record: Record) -> dict[tuple[str, str], Counters]:
    """Return the counters of a process by layer and kernel."""
    return {
        (layer, kernel): dict(zip(COUNTERS, row, strict=True))
        for layer, kernel, *row in record["tallies"]
    }


def _read_misses(record: Record) -> Iterator[MissNote]:
    parts = [Part(*part) for part in record["parts"]]
    for moment, fields, indices, texts, parameters in record["missed"]:
        yield MissNote(
            moment,
            Event(*fields),
            None if indices is None else Key(parts[index] for index in indices),
            {name: text.encode() for name, text in texts.items()},
            parameters,
            record,
        )


def _read_records() -> list[Record]:
    """Return the readable records. Raises nothing."""
    # Each process has a record of its own: folding them into one took a lock and 140 lines.
    readable: list[Record] = []
    with suppress(*FAULTS):
        store = records.open_store()
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
