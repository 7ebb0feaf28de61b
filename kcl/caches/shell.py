"""Changes of a shell's environment: the variables that switch caches off or on, or move them; and each shell's words.

Each cache is switched by its owner's variable, with a value that its owner's parser takes as off.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import NamedTuple

from kcl.base import settings
from kcl.caches.table import ROWS
from kcl.errors import meant

SHELLS = ("sh", "fish", "powershell")
ALL = "all"
_VALUES = ("1", "0")
# Variables for the places of the user's files: kcl does not set these.
_GIVEN = ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA", "APPDATA", "TEMP")


class ShellChange(NamedTuple):
    """The variables to set and to unset, in order, and remarks for the user."""

    set: dict[str, str]
    unset: list[str]
    remarks: list[str]


def made(off: list[str], on: list[str], directory: str | None) -> ShellChange:
    """Return the change for a wish; raises ValueError for a wish that no variable can fulfil.

    `all` stands for kcl's layers and the caches below them that have a switch; a neighbour counts only where it is
    named.
    """
    known = (*settings.LAYERS, *ROWS, ALL)
    for name in (*off, *on):
        if name not in known:
            raise ValueError(f"{name!r} is no layer{meant(name, known)}: take one of {', '.join(known)}")
    remarks = ALL not in off  # with `all` no remark is needed that a variable counts for several
    off, on = _named(off), _named(on)
    if set(off) & set(on):
        raise ValueError(f"{', '.join(sorted(set(off) & set(on)))} cannot be off and on")
    wish = ShellChange({}, [], [])
    _own(wish, set(off) & set(settings.LAYERS), set(on) & set(settings.LAYERS))
    for name in off:
        if name not in settings.LAYERS:
            _switch_off(wish, name, remarks)
    for name in on:
        if name not in settings.LAYERS:
            _switch_on(wish, name)
    if directory is not None:
        _move(wish, directory)
    for variable, value in wish.set.items():
        before = settings.variable(variable)
        if before not in (None, value):
            wish.remarks.append(f"{variable} is set to {before!r} now")
    return wish


def lines(wish: ShellChange, shell: str) -> list[str]:
    """Write a change in the language of a shell."""
    unset = {"sh": "unset {}", "fish": "set -e {}", "powershell": "Remove-Item Env:{} -ErrorAction SilentlyContinue"}
    put = {"sh": "export {}={}", "fish": "set -gx {} {}", "powershell": "$env:{} = {}"}
    quoted = {"sh": shlex.quote, "fish": _fish, "powershell": _powershell}[shell]
    setting = [put[shell].format(name, quoted(value)) for name, value in wish.set.items()]
    return [*(unset[shell].format(name) for name in wish.unset), *setting]


def _own(wish: ShellChange, off: set[str], on: set[str]) -> None:
    """Switch layers of kcl; layers that are off already stay off."""
    if not off | on:
        return
    wanted = (settings.read().no_cache | off) - on
    if wanted == set(settings.LAYERS):
        wish.set["KCL_NO_CACHE"] = "1"
    elif wanted:
        wish.set["KCL_NO_CACHE"] = ",".join(sorted(wanted))
    elif "no_cache" in settings.from_file():
        wish.set["KCL_NO_CACHE"] = "0"
    else:
        wish.unset.append("KCL_NO_CACHE")


def _named(names: list[str]) -> list[str]:
    """Replace `all` by the names that it stands for."""
    every = [*settings.LAYERS, *(name for name, row in ROWS.items() if row.switches and not row.neighbour)]
    return list(dict.fromkeys(one for name in names for one in (every if name == ALL else [name])))


def _switch_off(wish: ShellChange, name: str, remarks: bool) -> None:
    for switch in ROWS[name].switches:
        for value in _VALUES:
            if switch.parse(value) is not None and not _is_place(name, switch.variable):
                wish.set[switch.variable] = value
                if remarks and name in ("loopy", "pyopencl", "pyopencl-binary"):
                    wish.remarks.append(f"{switch.variable} counts for kcl's layers too, see kcl env")
                return
    raise ValueError(f"{ROWS[name].title}: no variable switches it off")


def _switch_on(wish: ShellChange, name: str) -> None:
    for switch in ROWS[name].switches:
        if not _is_place(name, switch.variable):
            wish.unset.append(switch.variable)


def _is_place(name: str, variable: str) -> bool:
    return any(_variable(template) == variable for template in ROWS[name].places.here)


def _move(wish: ShellChange, directory: str) -> None:
    """Move kcl's files and the caches below it, each by a variable that it reads."""
    wish.set["KCL_CACHE_DIR"] = directory
    wish.set["XDG_CACHE_HOME"] = directory
    wish.remarks.append("XDG_CACHE_HOME moves the caches of all programs that this shell starts")
    for row in ROWS.values():
        if row.neighbour or not row.places.here:
            continue
        own = [_variable(template) for template in row.places.here if _variable(template) not in (*_GIVEN, "")]
        if any(_follows(template) for template in row.places.here):
            wish.unset.extend(variable for variable in own if settings.variable(variable) is not None)
        elif own:
            wish.set[own[0]] = os.path.join(directory, *_tail(row.places.here[-1]))
        else:
            wish.remarks.append(f"{row.title}: no variable moves it")


def _variable(template: str) -> str:
    return template[1:].partition("/")[0] if template.startswith("$") else ""


def _follows(template: str) -> bool:
    """Tell whether a place follows XDG_CACHE_HOME."""
    return template.startswith("$XDG_CACHE_HOME") or (template.startswith("user:") and sys.platform != "win32")


def _tail(template: str) -> list[str]:
    """Return the folder names of a cache below a root: nv and ComputeCache for "~/.nv/ComputeCache"."""
    return [part.lstrip(".") for part in template.split("/")[1:] if part not in (".cache", "Library")]


def _fish(value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def _powershell(value: str) -> str:
    quoted = value.replace("'", "''")
    return f"'{quoted}'"
