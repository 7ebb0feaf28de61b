"""Records: the statistics that a process leaves when it ends, written once, as one file; the journal reads them.

    record = head rows uses missed runs told late    one line of JSON each: a reader of totals parses the first alone
    head   = {"format": 1, "sources": [digest of each record folded into this one], "totals": {layer: counters}}
    rows   = [[day, layer, kernel, counter...]...]
    uses   = {first digits of an entry's digest: [number of hits, time of the last, seconds, seconds saved]}
    missed = {"parts": [[name, value]...], "missed": [[field...]...], "texts": {index: {name: text}}}

Keys are lists of indices into "parts". "texts" has parts of an entry for misses that stored none, by their index.
    runs   = [[name, driver, process id, begin, end]] of the process that wrote it; a record of many has those of the
             last runs, with counters and uses of their own (see `kcl.inspect.history.runs`)
told   = {name of a run: [[remarks of its report on loopy], {first digits: [kernel, [name of a parameter]]}]}
    late   = [[time, driver, field...]...]    switches that came too late, with the fields of `kcl.caches.late_switches`

Any number of processes write at once and lose nothing. A process needs only this part of the journal at its end, hence
there are no classes here, which take long to make.
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

FORMAT = 1
COUNTERS = ("hits", "misses", "bypassed", "errors", "seconds", "saved", "bytes")
OUTCOMES = COUNTERS[:4]  # the counters of look-ups
DIGITS = 32  # of a digest that stands for an entry in statistics
MANY = 64  # records: from this number on a writer reports that they should be folded
FAULTS = (OSError, CacheFault, ValueError, TypeError, KeyError, IndexError, AttributeError)

Counters = dict[str, float]
Rows = dict[tuple[str, str, str], Counters]  # by day, layer and kernel


class ProcessName:
    """The name of this process in the journal, and its process id."""

    def __init__(self) -> None:
        self.name, self.process = os.urandom(8).hex(), os.getpid()

    after_fork = __init__


_run = process.own(ProcessName)


def write(remarks: Sequence[str] = (), late: Sequence[tuple[Any, ...]] = ()) -> bool:
    """Write the collected statistics of this process; tell whether there are many records now. Raises nothing.

    `remarks` are those of its report that stand in no counter, `late` the switches that came too late.
    Nothing is written where every used layer is off.
    """
    found = events.taken()
    counts = any(row["hits"] + row["misses"] + row["errors"] for row in found.tallies.values())
    nothing = not counts and all(noted.event.reason.startswith("off: ") for noted in found.noted)
    if nothing and (found.noted or not late):  # the look-ups of late switches may stand in an earlier record
        return False
    day, totals = time.strftime("%Y-%m-%d"), merged({layer: row} for (layer, _), row in found.tallies.items())
    rows = {(day, *place): row for place, row in found.tallies.items()}
    uses = {digest[:DIGITS]: used for digest, used in found.uses.items()}
    asked = {digest[:DIGITS]: by for digest, by in found.asked.items()}
    try:
        kept = store()
        told, noted = {_run().name: [remarks, asked]}, [[time.time(), driver_name(), *one] for one in late]
        put(kept, totals, rows, uses, missed(found.noted), [], [_ran(found)], told, noted)
        return sum(1 for _ in kept.scan()) > MANY
    except FAULTS as error:
        # A fault that hinders this hinders the layers too, which have reported it.
        events.logger().info("the statistics of this process are lost: %r", error)
        return False


def store() -> Directory:
    """Return the directory of the records."""
    return Directory(places.own(places.JOURNAL))


def put(
    kept: Directory,
    totals: dict[str, Counters],
    rows: Rows,
    uses: Mapping[str, tuple[float, ...]],
    missed: Iterable[tuple[Any, ...]],
    sources: list[str],
    runs: Iterable[Iterable[Any]] = (),
    told: Mapping[str, Sequence[Any]] = {},
    late: Iterable[Sequence[Any]] = (),
) -> None:
    """Write a record; `missed` has the fields of `kcl.inspect.history.journal.JournalMiss`."""
    # Two records are never the same bytes, or one of them would not count.
    head = {"format": FORMAT, "id": os.urandom(8).hex(), "sources": sources, "totals": totals}
    counted = [[*place, *(row[name] for name in COUNTERS)] for place, row in rows.items()]
    indices: dict[tuple[str, str], int] = {}
    missed, listed = [*missed], []
    for *fields, key, driver, pid, _texts, seconds, parameters in missed:
        parts = None if key is None else [indices.setdefault(part, len(indices)) for part in key.parts]
        listed.append([*fields, parts, driver, pid, seconds, parameters])
    misses = {"parts": list(indices), "missed": listed, "texts": _texts_of(missed)}
    lines = head, counted, uses, misses, list(runs), dict(told), list(late)
    blob = b"\n".join(json.dumps(line, allow_nan=False, separators=(",", ":")).encode() for line in lines)
    kept.put(address(hashlib.sha256(blob).hexdigest(), label="run"), blob)


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


def _ran(found: events.Collection) -> list[Any]:
    """Name this process, with the begin of its first look-up and the latest possible end of its last one."""
    run, ended = _run(), time.time()
    began = [last - seconds for _count, last, seconds, _saved in found.uses.values()]
    began += [noted.time - noted.event.seconds for noted in found.noted]
    return [run.name, driver_name(), run.process, min(began, default=ended), ended]


def _texts_of(missed: list[tuple[Any, ...]]) -> dict[str, dict[str, str]]:
    """Return the texts of the last misses by their index, as many as fit."""
    found, room = {}, events.TEXTS
    for index in reversed(range(len(missed))):
        texts: Mapping[str, bytes] = missed[index][-3]
        size = sum(map(len, texts.values()))
        if texts and size <= room:
            found[str(index)] = {name: text.decode() for name, text in texts.items()}
            room -= size
    return found


def merged(found: Iterable[Mapping[Any, Counters]]) -> dict[Any, Counters]:
    """Add up the counters under the same name; the arguments stay unchanged."""
    total: dict[Any, Counters] = {}
    for place, row in (pair for rows in found for pair in rows.items()):
        before = total.get(place)
        total[place] = {name: row[name] + before[name] if before else row[name] for name in COUNTERS}
    return total
