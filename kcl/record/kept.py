"""What is kept of the readings of a run (`kcl.record.callables.readings`) for the next run of the same driver.

The first direct key of a process reads them, and at its end a process that made new ones writes them, with its journal.
The key holds all that decides how code is read: Python, kcl, and what can be seen of the modules of kcl that read.
"""

from __future__ import annotations

import os
import sys

import kcl
from kcl.base import process
from kcl.cache import layers, places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import Remembered, driver_name
from kcl.record.callables import readings

_MODULES = ("bytecode", "code", "distributions", "readings", "references", "scan")
_FEW = 64


class State:
    """Where the readings of this driver lie, None before they were read."""

    def __init__(self) -> None:
        self.remembered: Remembered | None = None

    def on_change(self) -> None:
        self.remembered = None


_state = process.own(State)


def load() -> None:
    """Read what the last run left, once in a process. Raises nothing."""
    state = _state()
    if state.remembered is not None or layers.generator().off():
        return
    key = Key([Part("driver", driver_name()), Part("python", sys.version), Part("kcl", _version())])
    state.remembered = remembered = Remembered(places.READINGS, key)
    try:
        readings.before = dict(remembered.read().get("readings", ()))
    except (TypeError, ValueError):
        readings.before = {}


def write() -> None:
    """Write the readings of this process where some are new; of those that it had no use for, few. Raises nothing."""
    remembered, before, used = _state().remembered, readings.before, readings.now
    if remembered is not None and not used.keys() <= before.keys():
        idle = {place: found for place, found in before.items() if place not in used}
        for place in list(idle)[: -len(used) - _FEW]:
            del idle[place]
        readings.before = {**idle, **used}
        remembered.write({"readings": list(readings.before.items())})


def _version() -> str:
    """Return the version of kcl, and size and time of the files of the modules that read, where there are files."""
    found = [kcl.__version__]
    folder = os.path.dirname(readings.__file__)
    for name in _MODULES:
        try:
            status = os.stat(os.path.join(folder, f"{name}.py"))
        except OSError:
            continue
        found.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return ", ".join(found)
