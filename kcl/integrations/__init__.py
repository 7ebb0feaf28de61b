"""Integrations: caching for programs that were not written for kcl.

    kcl.install()       from now on pyopencl's programs and loopy's units go through kcl's layers
    kcl.uninstall()     undoes that

A row of `TABLE` names a package, and the module that replaces some of its functions. They are replaced at once if the
program has imported the package, else when it imports it. kcl imports no package for this.
"""

from __future__ import annotations

import importlib
import sys
from operator import attrgetter
from typing import Any

from kcl.base import process

# The attribute of a pyopencl program with (kcl's BuiltProgram, the options for the driver); None if the build failed.
SERVED = "_kcl_served"


# Package -> the module that integrates it. The module has `NEEDED`, dotted names that the package must have, and
# `replacements(package)`, which returns triples (holder, name, value).
TABLE = {
    "pyopencl": "kcl.integrations.programs",
    "loopy": "kcl.frontends.loopy.units",
    "pytato": "kcl.frontends.pytato.program",
}


class Installation(process.LockedState):
    """The number of open `install` calls, the replaced functions, and the finder that acts on imports of the packages."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        # The holder, the name, the value before, and the value now.
        self.replaced: list[tuple[Any, str, Any, Any]] = []
        self.finder: Any = None
        # The packages that are done: their functions were replaced, or they cannot be served.
        self.done: set[str] = set()


_state = process.shared(Installation)


def install() -> None:
    """From now on, cache the programs of pyopencl and the units of loopy that are made without kcl. Thread-safe.

    It may be called before or after these packages are imported. Each call needs a call of `uninstall` to undo it. If a
    package lacks a name that kcl relies on, it is left unchanged and a warning says so; under `KCL_STRICT=hit` its import
    raises CacheMiss.

    >>> kcl.install()
    >>> program = cl.Program(context, "kernel void f(global int *a) { a[0] = 1; }").build()
    >>> kcl.stats()["binary"]["misses"]
    1
    >>> kcl.uninstall()
    """
    from kcl.base import attended
    from kcl.frontends.loopy import imports

    # The program's modules that import loopy later get its face. Calls of loopy itself are recorded by `record_own`.
    imports.install()
    state = _state()
    with state.lock:
        state.depth += 1
        if state.depth > 1:
            return
        state.done.clear()
        state.finder = attended.run_modules(
            lambda name: name in TABLE and name not in state.done,
            lambda package, loader: _run(package.__name__, package, loader),
        )
        state.finder.install()
        imports.record_own(True)
        # Outside of the lock, since another thread may be importing a package and needs the lock at the end of that.
    for name in TABLE:
        if name in sys.modules:
            _put(name, importlib.import_module(name))


def uninstall() -> None:
    """Undo one `install`; the last one restores the packages' functions. Built programs stay usable. Thread-safe.

    >>> kcl.install()
    >>> kcl.uninstall()
    >>> program = cl.Program(context, "kernel void f(global int *a) { a[0] = 2; }").build()
    >>> kcl.stats()["binary"]["misses"]
    0
    """
    from kcl.frontends.loopy import imports

    state = _state()
    with state.lock:
        state.depth = max(state.depth - 1, 0)
        if state.depth or state.finder is None:
            return
        state.finder.remove()
        state.finder = None
        imports.record_own(False)
        for holder, name, before, now in reversed(state.replaced):
            # A function that the program has put there since stays.
            if vars(holder).get(name) is now:
                setattr(holder, name, before)
        state.replaced.clear()


def is_installed() -> bool:
    """Return True if the integrations are installed."""
    return _state().depth > 0


def _run(name: str, package: Any, loader: Any) -> None:
    """Import a package and replace its functions.

    If the package opens caches at import and cannot use the user's directory, it gets a private one.
    """
    from kcl import foreign
    from kcl.base import spans

    with spans.span(f"import {name}"):
        foreign.load_with_usable_cache(lambda: loader.exec_module(package))
    _put(name, package)


def _put(name: str, package: Any) -> None:
    """Replace the functions of a package, unless it lacks a needed name.

    The integrating module is imported without kcl's lock, since another thread may hold that module's import lock and wait
    for kcl's.
    """
    state = _state()
    with state.lock:
        finder = state.finder
        if finder is None or name in state.done:
            return
        # Noted before the work, so that another thread does not do the same.
        state.done.add(name)
    try:
        module = importlib.import_module(TABLE[name])
        _check(name, package, module.NEEDED)
        replacements = module.replacements(package)
    except Exception as error:
        # The package then works as without kcl.
        _refuse(name, error)
        return
    with state.lock:
        # The integrations may have been uninstalled in between.
        if state.finder is finder:
            for holder, attribute, now in replacements:
                # `vars`, not `getattr`: a static method or a property goes back as it was.
                state.replaced.append((holder, attribute, vars(holder)[attribute], now))
                setattr(holder, attribute, now)


def _check(name: str, package: Any, needed: tuple[str, ...]) -> None:
    """Raise ImportError if a package lacks a needed name."""
    for dotted in needed:
        try:
            attrgetter(dotted)(package)
        except AttributeError:
            raise ImportError(f"this {name} has no {dotted}") from None


def _refuse(name: str, error: Exception) -> None:
    """Warn once that a package is left unchanged; under `KCL_STRICT=hit` raise CacheMiss, since nothing of it can hit."""
    from kcl.base import settings
    from kcl.cache.faults import warn_once
    from kcl.errors import CacheMiss

    words = f"kcl leaves {name} as it is, and the program runs as without: {error}"
    if "hit" in settings.read().strict:
        raise CacheMiss(f"{words}. KCL_STRICT=hit allows hits only") from error
    warn_once(f"integration of {name}", words)
