"""Shell lines that switch caches off or on, or move them, in the language of each shell.

Each cache is switched by its owner's variable, with a value that its owner reads as off.
"""

from __future__ import annotations

import os
import shlex

from kcl.base import settings
from kcl.errors import refuse_unknown
from kcl.foreign.table import ROWS, placed_by

ALL = "all"
_XDG = "XDG_CACHE_HOME"
# A shell: the line that unsets a variable, the line that sets one, and the quoting of a value.
SHELLS = {
    "sh": ("unset {}", "export {}={}", shlex.quote),
    "fish": (
        "set -e {}",
        "set -gx {} {}",
        lambda value: "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'",
    ),
    "powershell": (
        "Remove-Item Env:{} -ErrorAction SilentlyContinue",
        "$env:{} = {}",
        lambda value: "'" + value.replace("'", "''") + "'",
    ),
}


Change = dict[str, str | None]  # by variable: the value to set, None to unset


def plan_change(off: list[str], on: list[str], directory: str | None) -> Change:
    """Return the variables that switch caches off and on and move them to `directory`.

    `all` stands for kcl's layers and the caches below them that have a switch. A neighbour (see `CacheRow`) must be named.
    Raises ValueError for an unknown name, or for a cache that no variable switches.
    """
    refuse_unknown((*off, *on), (*settings.LAYERS, *ROWS, ALL))
    off, on = _expand(off), _expand(on)
    if set(off) & set(on):
        raise ValueError(f"{', '.join(sorted(set(off) & set(on)))} cannot be off and on")
    wish: Change = {}
    _switch_layers(wish, set(off) & set(settings.LAYERS), set(on) & set(settings.LAYERS))
    for name in filter(ROWS.__contains__, off):
        if not (switches := _find_switches(name)):
            raise ValueError(f"{ROWS[name].title}: no variable switches it off")
        wish.update([*switches.items()][:1])
    for name in on:
        if name in ROWS:
            wish.update(dict.fromkeys(_find_switches(name)))
    if directory is not None:
        _move(wish, directory)
    return wish


def lines(wish: Change, shell: str) -> list[str]:
    """Return the lines that make a change in a shell."""
    unset, put, quoted = SHELLS[shell]
    return [
        unset.format(name) if value is None else put.format(name, quoted(value))
        for name, value in wish.items()
    ]


def _switch_layers(wish: Change, off: set[str], on: set[str]) -> None:
    """Add the switch of kcl's layers to a wish; layers that are off already stay off."""
    if off | on:
        wanted = (settings.read().no_cache | off) - on
        # Without the variable the settings file would switch them off again.
        none = "0" if "no_cache" in settings.from_file() else None
        every = wanted == set(settings.LAYERS)
        wish["KCL_NO_CACHE"] = "1" if every else ",".join(sorted(wanted)) or none


def _expand(names: list[str]) -> list[str]:
    """Replace `all` by the names that it stands for."""
    every = [
        *settings.LAYERS,
        *(name for name, row in ROWS.items() if row.switches and not row.neighbour),
    ]
    expanded = [part for name in names for part in (every if name == ALL else [name])]
    return list(dict.fromkeys(expanded))


def _find_switches(name: str) -> dict[str, str]:
    """Return the variables that only switch a cache, each with a value that means off."""
    row = ROWS[name]
    moving = set(map(placed_by, row.places))
    return {
        variable: next(word for word in ("1", "0") if parse(word) is not None)
        for variable, parse in row.switches.items()
        if variable not in moving
    }


def _move(wish: Change, directory: str) -> None:
    """Add to a wish the variables that move kcl's files and the caches below it."""
    wish.update({"KCL_CACHE_DIR": directory, _XDG: directory})
    for name, row in ROWS.items():
        own = [
            variable
            for variable in map(placed_by, row.places)
            if variable not in ("", "HOME", _XDG)
        ]
        if row.neighbour or not own:
            continue
        if _XDG in row.variables:
            wish.update({name: None for name in own if settings.variable(name) is not None})
        else:
            wish[own[0]] = os.path.join(directory, name)
