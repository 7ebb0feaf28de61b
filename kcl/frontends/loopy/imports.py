"""Decides which modules get the face when they import loopy: modules with recipes, and the program's own modules.

`install` replaces `builtins.__import__`, once. The new function decides by the importing module alone, and leaves
`sys.modules` unchanged. If a module has imported loopy itself before, its calls are recorded by `watch`, which replaces
loopy's functions by recording ones. They record calls of recipes, and with `record_own` those of the program's modules.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import FunctionType
from typing import Any

from kcl import frontends
from kcl.base import attended, hide_from_warnings, is_being_imported, process, settings
from kcl.frontends import FACED, GENERATING
from kcl.frontends.loopy import generators
from kcl.generate import GENERATORS, top_of

# The original `builtins.__import__`. A global and no state, since every import reads it.
_import: Callable[..., Any] | None = None


class FaceRequests(process.LockedState):
    """Which modules get the face, and the lock for replacing functions.

    `watched` is the loopy whose functions were replaced. `faces` is True once a module of the program has imported
    kcl.loopy or defined a recipe: from then on all modules of the program get the face. `packages` has the installed
    packages that did so: each gets the face. `own` is True while calls of the program's own modules outside of recipes are
    recorded too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.watched: Any = None
        self.faces = False
        self.packages: set[str] = set()
        self.own = False

    def after_fork(self) -> None:
        generators.forget_other_threads()


_state = process.shared(FaceRequests)


def install() -> None:
    """Replace `builtins.__import__`, once. Thread-safe."""
    global _import
    is_off = _is_switched_off()
    with _state().lock:
        # Else the function would call itself.
        if _import is not None:
            return
        # The listeners are for keys, which are not needed with the layer off. They are installed first, so that they hear
        # what another thread imports through the new function.
        if not is_off:
            generators.receive(_generators_ended, _generators_begin)
            attended.Listener(_leading, _take, _ask).install()
        _import = frontends.beneath(builtins.__import__)
        builtins.__import__ = _faced_import
    frontends.receive(named_by)


def attend(spec: ModuleSpec) -> None:
    """Listen to the import of a generator that has just begun."""
    if not _is_switched_off():
        generators.install()
        generators.take(spec)
        generators.hear(spec, begins=True)


def _leading(name: str) -> str:
    """Return the top-level module if a module may pass code to a generator; empty for others.

    A finder calls this while Python holds a lock that imports of other threads need, so nothing is imported here. The first
    import of a generator's module, which a warm start does not have, also installs the listener for generators.
    """
    top = top_of(name)
    if name in GENERATING:
        is_asked = generators in sys.meta_path
        generators.install()
        # The other listener handles the module, unless it was installed only just now.
        return "" if is_asked else top
    if top == "kcl" or top in sys.stdlib_module_names or top in GENERATORS:
        return ""
    # It may not be imported here: until it is loaded, `_ask` and `_take` decide.
    requirements = sys.modules.get("kcl.generate.requirements")
    if requirements is None or is_being_imported(requirements):
        return top
    return top if requirements.leads(top) else ""


def _generators_begin(group: str) -> None:
    if not _is_off():
        from kcl.frontends.loopy import insides

        insides.note_begin(group)


def _generators_ended(names: list[str]) -> None:
    if not _is_off():
        from kcl.frontends.loopy import insides

        insides.note_end(names)


def _ask(package: str) -> None:
    """Decide whether a package may pass code to a generator, before it imports the packages that it requires."""
    if not _is_off():
        from kcl.generate import requirements

        requirements.leads(package)


def _take(names: list[str]) -> None:
    if not _is_off():
        from kcl.generate import requirements

        if names := [name for name in names if requirements.leads(name)]:
            from kcl.frontends.loopy import held

            held.take(names)


def named_by(module: str) -> None:
    """Note that a module imports kcl.loopy or defines a recipe: from now on more modules get the face.

    If it belongs to the program, all modules of the program get it; if it belongs to an installed package, that package.
    Modules of kcl and of Python's library, which import on behalf of others, change nothing.
    """
    from kcl.generate import distributions

    try:
        kind = distributions.owner(module).kind
    except Exception:
        # A module whose owner cannot be found counts as the program's.
        kind = distributions.USER
    if kind == distributions.DISTRIBUTION:
        _state().packages.add(top_of(module))
    elif kind not in (distributions.KCL, distributions.PYTHON):
        _state().faces = True


def named_above() -> None:
    """Call `named_by` for the module that is importing the caller's module."""
    frame: Any = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_filename.startswith("<frozen importlib")
        or frame.f_globals.get("__name__") == "importlib"
    ):
        frame = frame.f_back
    install()
    named_by(str(frame.f_globals.get("__name__")) if frame is not None else "")


def is_for_good() -> bool:
    """Return True if the program, or an installed package, has imported kcl.loopy or defined a recipe."""
    return _state().faces or bool(_state().packages)


def record_own(is_recorded: bool) -> None:
    """Begin, or stop, to record the calls of the program's own modules outside of recipes."""
    _state().own = is_recorded


# The parameters are those of `builtins.__import__`.
def _faced_import(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    assert _import is not None
    # All imports of the program come here, so the cheapest test is the first.
    if name[:6] not in ("loopy", "loopy.") or level or globals is None:
        if name[:3] == "kcl" and (
            name == "kcl.loopy" or (name == "kcl" and "loopy" in (fromlist or ()))
        ):
            named_by(str((globals or {}).get("__name__")))
        return _import(name, globals, locals, fromlist, level)
    if not _is_faced(globals):
        return _import(name, globals, locals, fromlist, level)
    from kcl.frontends.loopy import face

    # C code, such as pickle's, imports with an empty list and then reads `sys.modules`, which must have loopy itself.
    if fromlist == [] or not face.has(name, fromlist):
        from kcl.frontends.loopy import making

        making.loopy(f"import of {name}")
        own = _import(name, globals, locals, fromlist, level)
        if fromlist and name not in face.FACED:
            return own
    return face.submodule(name) if fromlist else face.face


hide_from_warnings(_faced_import)


def _is_faced(names: dict[str, Any]) -> bool:
    """Return True if the module with these globals gets the face."""
    name = str(names.get("__name__"))
    # Tested first, since loopy's own functions import loopy a hundred thousand times in a cold run.
    if name[:6] in ("loopy", "loopy."):
        return False
    state, faced = _state(), names.get(FACED)
    if faced or top_of(name) in state.packages:
        return True
    # The answer is kept in the module, since functions of libraries may import loopy thousands of times.
    if faced is not None or not (state.faces or state.own):
        return False
    is_own = names.get("__name__") == "__main__" or _is_own(names, state.faces)
    # Not kept, since the layer may be switched on again.
    if is_own and not state.faces and _is_off():
        return False
    names[FACED] = is_own
    return is_own


def _is_switched_off() -> bool:
    return settings.GENERATOR in settings.read().no_cache


def _is_off() -> bool:
    """Return True if the generator layer is off for loopy."""
    # kcl's own variable is tested first, without importing the layers.
    if _is_switched_off():
        return True
    from kcl.cache import layers

    return bool(layers.off(settings.GENERATOR, "loopy"))


def _is_own(names: dict[str, Any], editable: bool) -> bool:
    """Return True if a module belongs to the program, and not to an installed distribution or Python's library.

    `editable` says whether an editable install counts as the program's.
    """
    from kcl.generate import distributions

    module = names.get("__name__")
    if not isinstance(module, str) or top_of(module) in ("loopy", "kcl"):
        return False
    try:
        mine = distributions.owner(module).kind == distributions.USER
        return mine and (editable or not _is_editable(top_of(module)))
    except Exception:
        return False


def _is_editable(top: str) -> bool:
    """Return True if a package is an editable install: found by a finder, or by a path behind site-packages."""
    from kcl.generate import distributions

    place = distributions.locate(top)
    if place is None:
        return False
    paths = [os.path.abspath(entry or os.curdir) for entry in sys.path]
    sites = [
        number
        for number, path in enumerate(paths)
        if path.endswith(("site-packages", "dist-packages"))
    ]
    return place.directory not in paths or paths.index(place.directory) > min(
        sites, default=len(paths)
    )


def watch() -> None:
    """Replace loopy's functions by recording ones, for modules that have imported loopy itself.

    Calls from loopy's own functions pass unrecorded. A function that the program has replaced is left alone. Does nothing
    before loopy is imported.
    """
    if "loopy" not in sys.modules or (
        "kcl.frontends.loopy.insides" not in sys.modules and _is_off()
    ):
        return
    from kcl.frontends.loopy import insides, making, moment, table

    state, loopy = _state(), moment.loaded()
    if loopy is None or loopy is state.watched or insides.is_off():
        return
    with state.lock:
        # Another thread may have done it while this one waited for the lock.
        if loopy is state.watched:
            return
        for name in sorted(table.MAKERS | table.TRANSFORMATIONS):
            function = vars(loopy).get(name)
            if isinstance(function, FunctionType) and making.is_own(name, function):
                setattr(loopy, name, _watching(name, function))
        state.watched = loopy


def _watching(name: str, function: FunctionType) -> Any:
    from kcl.frontends.loopy import face, recorder, table

    state, is_versioned = _state(), name in table.VERSIONED

    @functools.wraps(function)
    def watching(*arguments: Any, **keywords: Any) -> Any:
        names = sys._getframe(1).f_globals
        is_recorded = recorder.in_recipe() or (state.own and recorder.is_on() and _is_faced(names))
        if not is_recorded or top_of(str(names.get("__name__", ""))) == "loopy":
            # loopy would look for the version in its caller's globals, which are those of this module here.
            if is_versioned:
                keywords = face.with_version(keywords, names)
            return function(*arguments, **keywords)
        return face.call(name, arguments, keywords)

    # So that pickle finds the function.
    watching.__module__, watching.__qualname__ = "loopy", name
    return watching
