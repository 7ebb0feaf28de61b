"""Records: the statistics of a process, one file for each, as one line of JSON.

    record = {"format": 5, "name": ..., "driver": ..., "program": ..., "pid": ..., "began": ..., "ended": ...,
              "remarks": [...],
              "asked":   {digits: [kernel, [parameter...]]},          the first digits of the digest of an entry
              "tallies": [[layer, kernel, counter...]...],
              "uses":    {digits: [number of hits, time of the last, seconds, seconds saved]},
              "parts":   [[name, value]...],
              "missed":  [[time, [field of `kcl.base.events.Event`...], key, texts, parameters]...],
                                                                      a key is a list of indices into "parts"
              "late":    [[time, late switch]...]}                    as `kcl.foreign.late_switches` finds it

A process that writes again replaces its record. Any number of processes write at once and lose nothing. A process needs
only this part of the journal at its end, hence there are no classes here, which take long to make.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcl import foreign
from kcl.base import events, process, settings
from kcl.cache import places
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault

if TYPE_CHECKING:
    from kcl.foreign.late_switches import LateSwitch

FORMAT = 5
COUNTERS = ("hits", "misses", "defaults", "bypassed", "errors", "seconds", "saved", "bytes")
# The counters of look-ups.
OUTCOMES = COUNTERS[:5]
# A counter that most tables leave out: it counts in one layer only.
SELDOM = "defaults"
# The digits of a digest that stand for an entry in statistics.
DIGITS = 32
# Records, and bytes of one: above these a writer asks for the oldest to be removed.
MANY, LARGE = 512, 1 << 16
FAULTS = (OSError, CacheFault, ValueError, TypeError, KeyError, IndexError, AttributeError)

Counters = dict[str, float]
Record = dict[str, Any]


class ProcessName(process.LockedState):
    """The name of this process in the journal, and its process id; the lock is held while the record is written."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """Take another name."""
        self.name, self.process = os.urandom(32).hex(), os.getpid()

    after_fork = begin


run = process.own(ProcessName)


def begin() -> None:
    """Begin a new record of this process; statistics that are not in the last record are dropped."""
    with run().lock:
        events.forget()
        run().begin()


def write(remarks: Sequence[str] = (), late: Sequence[LateSwitch] = ()) -> bool:
    """Write the record of this process; return True if old records should be removed now. Raises nothing.

    `remarks` are what its report says beside the counters, `late` the switches that came too late.
    Nothing is written if every used layer is off. Thread-safe.
    """
    with run().lock:
        return _write(describe_process(remarks, late))


def _write(record: Record) -> bool:
    counts = any(
        hits + misses + errors
        for _layer, _kernel, hits, misses, _defaults, _bypassed, errors, *_ in record["tallies"]
    )
    if not counts and all(
        event.reason.startswith("off: ") for _time, event, *_ in record["missed"]
    ):
        return False
    try:
        kept = open_store()
        text = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        kept.put(address(run().name, label="run"), text)
        return len(text) > LARGE or len(os.listdir(kept.location)) > MANY
    except FAULTS as error:
        # A fault that hinders this hinders the layers too, which have reported it.
        events.logger().info("the statistics of this process are lost: %r", error)
        return False


def describe_process(remarks: Sequence[str] = (), late: Sequence[LateSwitch] = ()) -> Record:
    """Return the record of this process so far."""
    collected, now, parts = events.collected(), time.time(), dict[tuple[str, str], int]()
    # The run began with its first look-up: events note the end of one, and how long it took.
    began = [last - seconds for _count, last, seconds, _saved in collected.uses.values()]
    began += [noted.time - noted.event.seconds for noted in collected.noted]
    return {
        "format": FORMAT,
        "name": run().name,
        "driver": settings.driver_name(),
        "program": settings.program_path(),
        "pid": run().process,
        "began": min(began, default=now),
        "ended": now,
        "remarks": list(remarks),
        "asked": {digest[:DIGITS]: by for digest, by in collected.consumers.items()},
        "tallies": [
            [*place, *(row[name] for name in COUNTERS)] for place, row in collected.tallies.items()
        ],
        "uses": {digest[:DIGITS]: used for digest, used in collected.uses.items()},
        "missed": [_describe_miss(noted, parts) for noted in collected.noted],
        "late": [(now, switch) for switch in late],
        "parts": list(parts),
    }


def explain_loopy() -> list[str]:
    """Say why loopy was imported; without loopy this imports nothing, so that it costs no time."""
    if "loopy" not in sys.modules and not events.total()["made"]:
        return []
    from kcl.inspect import about_loopy

    return about_loopy.remarks()


def find_late_switches() -> list[LateSwitch]:
    """Return the switches that came too late in this process."""
    if not foreign.has_changed():
        return []
    from kcl.foreign import late_switches

    return late_switches.find()


def open_store() -> Directory:
    """Return the directory of the records."""
    return Directory(places.own(places.JOURNAL))


def _describe_miss(noted: events.MissNote, parts: dict[tuple[str, str], int]) -> list[Any]:
    """Describe a look-up that was no hit; add the parts of its key to `parts`."""
    moment, event, key, texts, parameters, _record = noted
    return [
        moment,
        event,
        None if key is None else [parts.setdefault(part, len(parts)) for part in key.parts],
        {name: text.decode() for name, text in texts.items()},
        parameters,
    ]


def merge(tables: Iterable[Mapping[Any, Counters]]) -> dict[Any, Counters]:
    """Add up the counters under the same name; the arguments stay unchanged."""
    total: dict[Any, Counters] = {}
    for rows in tables:
        for place, row in rows.items():
            sums = total.get(place, dict.fromkeys(COUNTERS, 0))
            total[place] = {name: count + row[name] for name, count in sums.items()}
    return total
