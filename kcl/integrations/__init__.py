"""Integrations: programs that were not written for kcl.

    kcl.install()       from now on pyopencl's programs and loopy's units go through kcl's layers
    kcl.uninstall()     as before

A row of the table names a package and the module that knows the replacements of its functions. A package is changed in
place: at once if the program has imported it, else on its import. kcl imports no package for this.
"""

from __future__ import annotations

import importlib
import sys
from operator import attrgetter
from typing import Any

from kcl.base import process

# An attribute of a program of pyopencl: kcl's own program and the options as the driver gets them; None if the build
# failed.
SERVED = "_kcl_served"


# By package: the module that integrates it, of any version. The module has `NEEDED`, the dotted names that must exist,
# and `replacements(package)`, which returns triples (holder, name, value).
TABLE = {
    "pyopencl": "kcl.integrations.programs",
    "loopy": "kcl.frontends.loopy.units",
    "pytato": "kcl.frontends.pytato.program",
}


class Installation(process.LockedState):
    """The number of installs, the replaced functions, and the finder that waits for the import of a package."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        # The holder, the name, the value before, and the value now.
        self.replaced: list[tuple[Any, str, Any, Any]] = []
        self.finder: Any = None
        # The packages that were replaced, or left as they are.
        self.done: set[str] = set()


_state = process.shared(Installation)


def install() -> None:
    """Take the programs of pyopencl and the units of loopy through kcl's layers, from now on. Thread-safe.

    This may be called before or after these packages are imported, and more than once: `uninstall` is called as often.
    A package without a name that kcl relies on stays as it is, and a warning says so; under `KCL_STRICT=hit` its import
    raises CacheMiss.

    >>> kcl.install()
    >>> program = cl.Program(context, "kernel void f(global int *a) { a[0] = 1; }").build()
    >>> kcl.stats()["binary"]["misses"]
    1
    >>> kcl.uninstall()
    """
    from kcl.base import attended
    from kcl.frontends.loopy import imports

    # The program's own modules get the face of loopy. Where they have loopy itself, their calls are recorded.
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
        # Without the lock: another thread may be importing one of them, and needs the lock as it ends.
    for name in TABLE:
        if name in sys.modules:
            _put(name, importlib.import_module(name))


def uninstall() -> None:
    """Undo one `install`; the last one puts back what was there. Programs that were built stay usable. Thread-safe.

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
            # What the program put in the place since is the program's, and stays.
            if vars(holder).get(name) is now:
                setattr(holder, name, before)
        state.replaced.clear()


def is_installed() -> bool:
    """Return True if the integrations are installed."""
    return _state().depth > 0


def _run(name: str, package: Any, loader: Any) -> None:
    """Run a package's own code, and put the functions of its row in place.

    A package that opens its caches in its code gets a private directory where it cannot use the user's.
    """
    from kcl import foreign
    from kcl.base import spans

    with spans.span(f"import {name}"):
        foreign.load_with_usable_cache(lambda: loader.exec_module(package))
    _put(name, package)


def _put(name: str, package: Any) -> None:
    """Put the functions of a row in place, unless the package lacks something.

    An import runs without the lock: another thread may hold the lock of that import, and want kcl's.
    """
    state = _state()
    with state.lock:
        finder = state.finder
        if finder is None or name in state.done:
            return
        # It is noted before the work: a second import of the package must not put the functions in place again.
        state.done.add(name)
    try:
        module = importlib.import_module(TABLE[name])
        _check(name, package, module.NEEDED)
        replacements = module.replacements(package)
    except Exception as error:
        # A package that kcl cannot serve works as without kcl.
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
    """Raise an error for a package that lacks a name."""
    for dotted in needed:
        try:
            attrgetter(dotted)(package)
        except AttributeError:
            raise ImportError(f"this {name} has no {dotted}") from None


def _refuse(name: str, error: Exception) -> None:
    """Report once that a package stays as it is; raise CacheMiss under `KCL_STRICT=hit`, which no look-up of it keeps."""
    from kcl.base import settings
    from kcl.cache.faults import warn_once
    from kcl.errors import CacheMiss

    words = f"kcl leaves {name} as it is, and the program runs as without: {error}"
    if "hit" in settings.read().strict:
        raise CacheMiss(f"{words}. KCL_STRICT=hit allows hits only") from error
    warn_once(f"integration of {name}", words)
