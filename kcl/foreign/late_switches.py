"""Switches that came too late: variables that changed after the owner of a cache had read them.

A module of Python shows the value that it read. A driver does not: kcl compares the current environment with that of
kcl's first use, when the drivers were loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kcl import foreign
from kcl.foreign import contents
from kcl.foreign.table import ROWS, CacheRow

# A change that its owner did not see, with the members cache, variable, value and words of `kcl status --json`.
LateSwitch = dict[str, Any]


def find() -> list[LateSwitch]:
    """Return the changes that came too late in this process, by cache."""
    _start, first, now = foreign.environments()
    late = {
        ("kcl", variable): "kcl, read when a layer is first used"
        for variable in ("KCL_CACHE_DIR", "KCL_NO_CACHE", "KCL_STRICT")
        if now.get(variable) != first.get(variable)
    }
    for name, row in ROWS.items():
        variable = (
            _find_in_module(row, now) if row.flag is not None else _find_in_driver(row, first, now)
        )
        if variable and contents.is_here(name):
            late[name, variable] = f"{row.title}, read {row.read}"
    return [
        {
            "cache": name,
            "variable": variable,
            "value": now.get(variable),
            "words": f"{_describe_change(variable, now)} too late for {owner}",
        }
        for (name, variable), owner in late.items()
    ]


def _describe_change(variable: str, now: Mapping[str, str]) -> str:
    return f"{variable}={now[variable]} was set" if variable in now else f"{variable} was removed"


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
