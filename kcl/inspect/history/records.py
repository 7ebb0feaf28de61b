"""Records: the statistics that a process leaves when it ends, written once, as one line of JSON.

    record = {"format": 2, "id": ..., "sources": [digest of each record that was folded into this one],
              "days":   [[day, layer, kernel, counter...]...],
              "uses":   {first digits of an entry's digest: [number of hits, time of the last, seconds, seconds saved]},
              "parts":  [[name, value]...],
              "missed": [[field of `journal.JournalMiss`...]...],    a key is a list of indices into "parts"
              "runs":   [[field of `journal.RunRecord`...]...],
              "late":   [[time, driver, field of `kcl.caches.late_switches.LateSwitch`...]...]}

The one run in the record of a process has no counters and uses of its own: they are those of the record. Any number of
processes write at once and lose nothing. A process needs only this part of the journal at its end, hence there are no
classes here, which take long to make.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcl.base import events, process
from kcl.cache import places
from kcl.cache.run_memo import driver_name
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault

FORMAT = 2
COUNTERS = ("hits", "misses", "bypassed", "errors", "seconds", "saved", "bytes")
OUTCOMES = COUNTERS[:4]  # the counters of look-ups
DIGITS = 32  # of a digest that stands for an entry in statistics
MANY = 64  # records: from this number on a writer reports that they should be folded
FAULTS = (OSError, CacheFault, ValueError, TypeError, KeyError, IndexError, AttributeError)

Counters = dict[str, float]


class ProcessName:
    """The name of this process in the journal, and its process id."""

    def __init__(self) -> None:
        self.name, self.process = os.urandom(8).hex(), os.getpid()

    after_fork = __init__


_run = process.own(ProcessName)


def write(remarks: Sequence[str] = (), late: Sequence[tuple[Any, ...]] = ()) -> bool:
    """Write the collected statistics of this process; return True if there are many records now. Raises nothing.

    `remarks` are those of its report that stand in no counter, `late` the switches that came too late.
    Nothing is written if every used layer is off.
    """
    found = events.taken()
    counts = any(row["hits"] + row["misses"] + row["errors"] for row in found.tallies.values())
    nothing = not counts and all(noted.event.reason.startswith("off: ") for noted in found.noted)
    if nothing and (found.noted or not late):  # the look-ups of late switches may stand in an earlier record
        return False
    run, driver, now, day = _run(), driver_name(), time.time(), time.strftime("%Y-%m-%d")
    began = [last - seconds for _count, last, seconds, _saved in found.uses.values()]
    began += [noted.time - noted.event.seconds for noted in found.noted]
    asked = {digest[:DIGITS]: by for digest, by in found.asked.items()}
    try:
        kept = store()
        put(
            kept,
            days=[[day, *place, *numbers(row)] for place, row in found.tallies.items()],
            uses={digest[:DIGITS]: used for digest, used in found.uses.items()},
            missed=missed(found.noted),
            runs=[[run.name, driver, run.process, min(began, default=now), now, remarks, asked]],
            late=[[now, driver, *one] for one in late],
        )
        return sum(1 for _ in kept.scan()) > MANY
    except FAULTS as error:
        # A fault that hinders this hinders the layers too, which have reported it.
        events.logger().info("the statistics of this process are lost: %r", error)
        return False


def store() -> Directory:
    """Return the directory of the records."""
    return Directory(places.own(places.JOURNAL))


def put(kept: Directory, *, sources: Sequence[str] = (), missed: Iterable[Sequence[Any]] = (), **fields: Any) -> None:
    """Write a record; of the texts of `missed` the last are kept, as many as fit."""
    parts: dict[tuple[str, str], int] = {}
    listed, room = [], events.TEXTS
    for *before, key, driver, pid, texts, seconds, parameters in reversed(list(missed)):
        indices = None if key is None else [parts.setdefault(part, len(parts)) for part in key.parts]
        size = sum(map(len, texts.values()))
        told = {name: text.decode() for name, text in texts.items()} if size <= room else {}
        room -= size if told else 0
        listed.append([*before, indices, driver, pid, told, seconds, parameters])
    # Two records are never the same bytes, or one of them would not count.
    head = {"format": FORMAT, "id": os.urandom(8).hex(), "sources": list(sources)}
    record = {**head, "days": [], "uses": {}, "runs": [], "late": [], **fields, "parts": list(parts)}
    text = json.dumps({**record, "missed": listed[::-1]}, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    kept.put(address(hashlib.sha256(text).hexdigest(), label="run"), text)


def missed(noted: Iterable[events.MissNote]) -> list[tuple[Any, ...]]:
    """Return the look-ups of this process that were no hits, with the fields of `journal.JournalMiss`."""
    run, driver = _run(), driver_name()
    return [
        (
            *(moment, run.name, event.layer, event.kernel, event.outcome, event.reason, key, driver, run.process),
            *(texts, event.seconds, parameters),
        )
        for moment, event, key, texts, parameters in noted
    ]


def numbers(row: Counters) -> list[float]:
    """Return counters in their order."""
    return [row[name] for name in COUNTERS]


def merged(found: Iterable[Mapping[Any, Counters]]) -> dict[Any, Counters]:
    """Add up the counters under the same name; the arguments stay unchanged."""
    total: dict[Any, Counters] = {}
    for place, row in (pair for rows in found for pair in rows.items()):
        before = total.get(place)
        total[place] = {name: row[name] + before[name] if before else row[name] for name in COUNTERS}
    return total
