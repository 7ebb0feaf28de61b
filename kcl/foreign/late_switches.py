"""Switches that came too late: a variable that changed after the owner of a cache had read it.

A module of Python shows the value that it read. Of a driver kcl compares the current environment with that of kcl's
first use, when the drivers were surely loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from kcl import foreign
from kcl.foreign import contents
from kcl.foreign.table import ROWS, CacheRow


class LateSwitch(NamedTuple):
    """A change that its owner did not see."""

    cache: str
    variable: str
    value: str | None
    words: str
    sure: bool = True


def find() -> list[LateSwitch]:
    """Return the changes that came too late in this process, by cache."""
    _start, first, now = foreign.environments()
    changes = [
        _late(
            "kcl",
            variable,
            now,
            "kcl, read when a layer is first used: the layers go on as they were",
        )
        for variable in ("KCL_CACHE_DIR", "KCL_NO_CACHE", "KCL_STRICT")
        if now.get(variable) != first.get(variable)
    ]
    for name, row in ROWS.items():
        variable, effect = (
            _of_module(row, now) if row.flag is not None else _of_driver(row, first, now)
        )
        if variable and contents.is_here(name):
            changes.append(_late(name, variable, now, f"{row.title}, read {row.read}: {effect}"))
    return changes


def _of_module(row: CacheRow, now: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that a module has not seen, and the effect."""
    assert row.flag is not None
    module, attribute, off, _words = row.flag
    wished = (
        switch.variable
        for switch in row.switches
        if switch.parse(now.get(switch.variable)) is not None
    )
    is_on = getattr(sys.modules.get(module), attribute, off) is not off
    return next(wished, "") if is_on else "", "it is on all the same"


def _of_driver(row: CacheRow, first: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that a driver has not seen, and the effect; empty for a change without effect."""
    changed = next(
        (variable for variable in row.variables if first.get(variable) != now.get(variable)), ""
    )
    was, place = foreign.switched_off(row, first), foreign.place_in(row, first).path
    if was != foreign.switched_off(row, now):
        return changed, f"it is off: {was}" if was else "it is on"
    return changed if place != foreign.place_in(row, now).path else "", f"its files are in {place}"


def _late(cache: str, variable: str, now: Mapping[str, str], words: str) -> LateSwitch:
    value = now.get(variable)
    change = f"{variable} was removed" if value is None else f"{variable}={value} was set"
    return LateSwitch(cache, variable, value, f"{change} too late for {words}")
