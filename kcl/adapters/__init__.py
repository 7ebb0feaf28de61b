"""The caches that are not kcl's own, and the one way to ask each of them: where, and is it on?

Facts stand in `kcl.adapters.table`, one row per cache; the verbs here are written once over all rows.
Nothing here imports loopy or pyopencl: a module's own switch counts only where that module is loaded already.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kcl import config
from kcl.adapters.table import ROWS, Row
from kcl.adapters.table import Switch as Switch  # part of a row


class State(NamedTuple):
    """Whether a foreign cache is on, and the words that say why not."""

    on: bool
    reason: str


class Place(NamedTuple):
    """Where a cache lies, and which variable decided that: "default" where none did, both empty where it has none."""

    path: str
    why: str


def names() -> tuple[str, ...]:
    """Return the names of all foreign caches, sorted."""
    return tuple(ROWS)


def row(name: str) -> Row:
    """Return the facts about the cache `name`; raises KeyError for a name that is in no row."""
    return ROWS[name]


def state(name: str) -> State:
    """Tell whether the cache `name` is on, by its owner's own parser, as of now."""
    row = ROWS[name]
    for switch in row.switches:
        value = os.environ.get(switch.variable)
        verdict = switch.parse(value)
        if verdict is not None:
            said = switch.variable if value is None else f"{switch.variable}={value}"
            return State(False, said + (f" ({verdict})" if verdict else ""))
    flipped = _flipped_by_call(row)
    return State(flipped is None, flipped or "")


def place(name: str) -> Place:
    """Return where the cache `name` lies, which need not exist, and why there."""
    for template in ROWS[name].places.here:
        found = _filled(template)
        if found is not None:
            return found
    return Place("", "")


def directory(name: str) -> str:
    """Return the directory of the cache `name`, which need not exist; empty where it has none here."""
    path = place(name).path
    return os.path.dirname(path) if ROWS[name].own == "file" and path else path


def files(name: str) -> tuple[str, ...]:
    """Return the files and directories that are this cache's own and are there, sorted.

    Neither links nor what others keep in the same directory are among them; nor is that directory itself.
    """
    from kcl.adapters import contents

    return contents.files(name)


def looks_like(name: str, path: str) -> bool:
    """Tell whether a path is a directory of the cache `name`: it holds something of it, and is no home and no root."""
    from kcl.adapters import contents

    return contents.looks_like(name, path)


def _filled(template: str) -> Place | None:
    """Fill in a template of `Places`; None where a variable that it needs is missing."""
    kind, _, rest = template.partition(":")
    if kind == "user":
        path = config.user_cache_dir(rest)
        xdg = os.environ.get("XDG_CACHE_HOME")
        return Place(path, "XDG_CACHE_HOME" if xdg and path == os.path.join(xdg, rest) else "default")
    if kind == "tmp":
        return _temporary(rest)
    if template.startswith("~"):
        return Place(os.path.normpath(os.path.expanduser(template)), "default")
    if not template.startswith("$"):
        return Place(template, "default")
    variable, _, rest = template[1:].partition("/")
    value = os.environ.get(variable.rstrip("?"))
    if value is None or not (value or variable.endswith("?")):
        return None
    path = os.path.join(value, *rest.split("/")) if rest else value
    return Place(path, "default" if variable in ("HOME", "LOCALAPPDATA", "APPDATA", "TEMP") else variable.rstrip("?"))


def _temporary(prefix: str) -> Place:
    """Return a directory of this user among those for temporary files, as tempfile and getpass find them."""
    import getpass
    import re
    import tempfile

    try:
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError, ImportError):
        return Place("", "")
    folder = tempfile.gettempdir()
    deciding = (name for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name) and os.environ[name] == folder)
    return Place(os.path.join(folder, prefix + user), next(deciding, "default"))


def code_variables() -> list[tuple[str, str]]:
    """Return the set variables that change generated code while every OpenCL string stays the same, sorted."""
    names = sorted({variable for row in ROWS.values() for variable in row.code_variables})
    return [(name, os.environ[name]) for name in names if name in os.environ]


def skips_argument_checks() -> bool:
    """Tell whether loopy leaves the argument checks out of the invokers that it generates now."""
    return bool(os.environ.get("_LOOPY_SKIP_ARG_CHECKS"))


# loopy's switch is global to the process, so one thread's miss must not look like the user's wish to another.
_loopy_lock = threading.RLock()
_loopy_wish: list[bool] = []


@contextmanager
def loopy_disk_caches_off() -> Iterator[None]:
    """Run loopy without its own disk caches, which return stale code for a changed generator; one thread at a time."""
    import loopy

    with _loopy_lock:
        _loopy_wish.append(bool(loopy.CACHING_ENABLED))
        loopy.CACHING_ENABLED = False
        try:
            yield
        finally:
            loopy.CACHING_ENABLED = _loopy_wish.pop()


def _flipped_by_call(row: Row) -> str | None:
    if row.flag is None:
        return None
    module, attribute, off_value, words = row.flag
    loaded = sys.modules.get(module)
    if loaded is None or getattr(loaded, attribute, None) is not off_value:
        return None
    if module == "loopy" and _loopy_wish and _loopy_wish[0]:
        return None
    return words


@contextmanager
def private_cache_home(path: str) -> Iterator[None]:
    """Let a module that fails without a usable cache directory be imported with `path` as `XDG_CACHE_HOME`."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before


def import_anyway(name: str) -> None:
    """Import a module that opens dictionaries on disk meanwhile; where it cannot, with a private directory for them.

    loopy and pyopencl.invoker fail without a usable cache directory. The private one is removed at exit.
    """
    if name in sys.modules:
        return
    import importlib
    import sqlite3

    try:
        importlib.import_module(name)
    except (OSError, sqlite3.Error):
        with private_cache_home(_private_directory()):
            importlib.import_module(name)


def _private_directory() -> str:
    import atexit
    import shutil
    import tempfile

    path = tempfile.mkdtemp(prefix="kcl-private-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
