"""Switches that came too late: a variable that changed after the owner of a cache had read it.

An owner may show the value that it read: a flag of its module, the directory of a dictionary, files that its driver has
mapped. kcl believes that value. Else kcl compares the current environment with that of kcl's first use, when the
drivers were surely loaded, and with that of the process's start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from kcl import caches
from kcl.caches.table import ROWS, CacheRow


class LateSwitch(NamedTuple):
    """A change that its owner did not see; `sure` is False where it may have seen it."""

    cache: str
    variable: str
    value: str | None
    words: str
    sure: bool


def find() -> list[LateSwitch]:
    """Return the changes that came too late in this process, by cache."""
    start, first, now = caches.environments()
    if start == first == now:
        return []
    libraries = _mapped()
    found = _of_kcl(first, now)
    for name, row in ROWS.items():
        if not _is_loaded(row, libraries):
            continue
        late = _of_owner(name, row, now) or _compared(name, row, first, now, True)
        if late is None and not _in_time(row, start, now, libraries):
            late = _compared(name, row, start, now, _never_came(row, now))
        if late is not None:
            found.append(late)
    return found


def _of_owner(name: str, row: CacheRow, now: Mapping[str, str]) -> LateSwitch | None:
    """Compare the current environment with the state that the owner's module shows."""
    if row.flag is not None:
        module, attribute, off, _words = row.flag
        switch = next((switch for switch in row.switches if switch.parse(now.get(switch.variable)) is not None), None)
        is_on = getattr(sys.modules.get(module), attribute, off) is not off
        if switch is not None and is_on and not (name == "loopy" and caches.kcl_switched_loopy_off()):
            return _said(name, row, switch.variable, now, "it is on all the same", True)
    held = vars(sys.modules.get(row.held[0]) or sys).get(row.held[1])  # asks no module to import itself
    path = getattr(held, "container_dir", None)
    if path is not None and path != caches.place_in(row, now).path:
        return _said(name, row, "XDG_CACHE_HOME", now, f"its files are in {path}", True)
    return None


def _compared(
    name: str, row: CacheRow, before: Mapping[str, str], now: Mapping[str, str], sure: bool
) -> LateSwitch | None:
    """Compare the effects of two environments on a cache, but for the state that its owner shows itself."""
    if row.flag is not None:
        return None
    changed = next((variable for variable in row.variables if before.get(variable) != now.get(variable)), None)
    if changed is None:
        return None
    was, place = caches.switched_off(row, before), caches.place_in(row, before).path
    if was != caches.switched_off(row, now):
        effect = f"it is off: {was}" if was else "it is on"
    elif place != caches.place_in(row, now).path:
        effect = f"its files are in {place}"
    else:
        return None
    return _said(name, row, changed, now, effect, sure)


def _said(name: str, row: CacheRow, variable: str, now: Mapping[str, str], effect: str, sure: bool) -> LateSwitch:
    value = now.get(variable)
    change = f"{variable} was removed" if value is None else f"{variable}={value} was set"
    if sure:
        words = f"{change} too late for {row.title}, read {row.read}: {effect}"
    else:
        words = f"{change} by the program itself, and {row.title} reads it {row.read}: if that came before, {effect}"
    return LateSwitch(name, variable, value, words, sure)


def _of_kcl(first: Mapping[str, str], now: Mapping[str, str]) -> list[LateSwitch]:
    """Compare the variables of kcl that are read when a layer is first used."""
    found = []
    for variable in ("KCL_CACHE_DIR", "KCL_NO_CACHE", "KCL_STRICT", "KCL_VERIFY"):
        value = now.get(variable)
        if value != first.get(variable):
            change = f"{variable} was removed" if value is None else f"{variable}={value} was set"
            words = f"{change} too late for kcl, read when a layer is first used: the layers go on as they were"
            found.append(LateSwitch("kcl", variable, value, words, True))
    return found


def _in_time(row: CacheRow, start: Mapping[str, str], now: Mapping[str, str], libraries: str) -> bool:
    """Tell whether the driver has files in the directory that the environment names now."""
    place = caches.place_in(row, now).path
    if not place or place == caches.place_in(row, start).path:
        return False
    return f" {os.path.abspath(place)}{os.sep}" in libraries


def _never_came(row: CacheRow, now: Mapping[str, str]) -> bool:
    """Tell whether a driver that makes its directory at its start has not made the one of the current environment."""
    return row.makes and not os.path.isdir(caches.place_in(row, now).path)


def _is_loaded(row: CacheRow, libraries: str) -> bool:
    return row.module in sys.modules or bool(row.library and f"/{row.library}" in libraries)


def _mapped() -> str:
    """Return the files that this process has mapped; on other systems than Linux an OpenCL driver counts as loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except OSError:
        return "".join(f" /{row.library} " for row in ROWS.values() if "pyopencl" in sys.modules)
