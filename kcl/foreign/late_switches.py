"""Switches that came too late: variables that changed after the owner of a cache had read them.

A module of Python shows the value that it read. A driver does not: kcl compares the current environment with that of
kcl's first use, when the drivers were loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from kcl import foreign
from kcl.foreign import contents
from kcl.foreign.table import ROWS, CacheRow


def find() -> list[str]:
    """Return the changes that came too late in this process, in words, by cache."""
    _start, first, now = foreign.environments()
    late = [
        (variable, "kcl, read when a layer is first used")
        for variable in ("KCL_CACHE_DIR", "KCL_NO_CACHE", "KCL_STRICT")
        if now.get(variable) != first.get(variable)
    ]
    for name, row in ROWS.items():
        variable = (
            _find_in_module(row, now) if row.flag is not None else _find_in_driver(row, first, now)
        )
        if variable and contents.is_here(name):
            late.append((variable, f"{row.title}, read {row.read}"))
    return [
        f"{variable}={now[variable]} was set too late for {owner}"
        if variable in now
        else f"{variable} was removed too late for {owner}"
        for variable, owner in late
    ]


def _find_in_module(row: CacheRow, now: Mapping[str, str]) -> str:
    """Return the variable that would switch a cache off if its module had not read it before; empty for none."""
    assert row.flag is not None
    module, attribute, off, _words = row.flag
    is_on = getattr(sys.modules.get(module), attribute, off) is not off
    wished = (name for name, parse in row.switches.items() if parse(now.get(name)) is not None)
    return next(wished, "") if is_on else ""


def _find_in_driver(row: CacheRow, first: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the first changed variable if the change would move a driver's cache or switch it; empty otherwise."""
    before, after = (
        (foreign.switched_off(row, environment), foreign.place_in(row, environment).path)
        for environment in (first, now)
    )
    changed = (variable for variable in row.variables if first.get(variable) != now.get(variable))
    return next(changed, "") if before != after else ""
