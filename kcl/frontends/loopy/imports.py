"""The modules that get the face of loopy: the modules of recipes, and the program's own modules.

`install` puts a function in front of `builtins.__import__`, once. The function decides by the module that imports,
never by the moment, and leaves `sys.modules` as it is. A module that imported the real loopy before is recorded at the
functions of the real loopy: `watch` puts a recording function in front of each. Calls of recipes are recorded there,
and the module's own calls where `record_own` says so.
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

# The former `builtins.__import__`. Every import reads it, so it stands here and in no state.
_import: Callable[..., Any] | None = None


class FaceRequests(process.LockedState):
    """The lock of the threads that replace functions, the loopy that has replaced functions, and the user's requests.

    `faces` is set once the program has named kcl.loopy or a recipe: its own modules get the face for good. `packages`
    has the installed packages that named one of them: each gets the face itself. `own` is set while kcl also records
    the calls of the program's own modules outside of recipes.
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
    """Stand in front of Python's import from now on. Thread-safe."""
    global _import
    is_off = _is_switched_off()
    with _state().lock:
        # A second call would put the function in front of itself.
        if _import is not None:
            return
        # With that layer off no key asks what packages hold. The listener comes first: what another thread imports
        # through the function is heard.
        if not is_off:
            generators.receive(_generators_ended, _generators_begin)
            attended.Listener(_leading, _take, _ask).install()
        _import = frontends.beneath(builtins.__import__)
        builtins.__import__ = _faced_import
    frontends.receive(named_by)


def attend(spec: ModuleSpec) -> None:
    """Attend to the import of a generator that has just begun."""
    if not _is_switched_off():
        generators.install()
        generators.take(spec)
        generators.hear(spec, begins=True)


def _leading(name: str) -> str:
    """Return the top-level module of a package that may lead to a generator, nothing for another one.

    Python asks a finder under a lock for which the imports of other threads wait. So nothing is imported here. At the
    first import that no warm start has, kcl begins to attend to the imports of the generators.
    """
    top = top_of(name)
    if name in GENERATING:
        is_asked = generators in sys.meta_path
        generators.install()
        # The other listener has the module: it asks this one, or is asked as this one goes on.
        return "" if is_asked else top
    if top == "kcl" or top in sys.stdlib_module_names or top in GENERATORS:
        return ""
    # Until that module is there, `_ask` and `_take` decide.
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
    """Ask whether a package leads to a generator, before it imports what it requires: that leads there with it."""
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
    """Give the face for good, because a module names kcl.loopy or has a recipe.

    A module of the program gives it to all modules of the program, an installed package to itself. kcl's own modules,
    and those of Python's library, which import for others, give it to nobody.
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
    """Give the face to the module that imports the caller's module for the first time."""
    frame: Any = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_filename.startswith("<frozen importlib")
        or frame.f_globals.get("__name__") == "importlib"
    ):
        frame = frame.f_back
    install()
    named_by(str(frame.f_globals.get("__name__")) if frame is not None else "")


def is_for_good() -> bool:
    """Return True if the program, or an installed package, has named kcl.loopy or a recipe."""
    return _state().faces or bool(_state().packages)


def record_own(is_recorded: bool) -> None:
    """Record the calls of the program's own modules outside of recipes from now on, or stop recording them."""
    _state().own = is_recorded


# The parameters are those of `builtins.__import__`.
def _faced_import(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    assert _import is not None
    # Every import of the program passes here, so the first test is the cheapest one.
    if name[:6] not in ("loopy", "loopy.") or level or globals is None:
        if name[:3] == "kcl" and (
            name == "kcl.loopy" or (name == "kcl" and "loopy" in (fromlist or ()))
        ):
            named_by(str((globals or {}).get("__name__")))
        return _import(name, globals, locals, fromlist, level)
    if not _is_faced(globals):
        return _import(name, globals, locals, fromlist, level)
    from kcl.frontends.loopy import face

    # C code, such as pickle's, asks with an empty list: it then looks into `sys.modules`, where loopy itself must be.
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
    # loopy's functions import loopy a hundred thousand times in a cold run.
    if name[:6] in ("loopy", "loopy."):
        return False
    state, faced = _state(), names.get(FACED)
    if faced or top_of(name) in state.packages:
        return True
    # A module of a library is not asked again: its functions import loopy thousands of times.
    if faced is not None or not (state.faces or state.own):
        return False
    is_own = names.get("__name__") == "__main__" or _is_own(names, state.faces)
    # The layer may be switched on again.
    if is_own and not state.faces and _is_off():
        return False
    names[FACED] = is_own
    return is_own


def _is_switched_off() -> bool:
    return settings.GENERATOR in settings.read().no_cache


def _is_off() -> bool:
    """Return True if the generator layer is off: then a program without recipes has loopy itself."""
    # With the switch of kcl the answer needs no further module.
    if _is_switched_off():
        return True
    from kcl.cache import layers

    return bool(layers.off(settings.GENERATOR, "loopy"))


def _is_own(names: dict[str, Any], editable: bool) -> bool:
    """Return True if a module belongs to the program: neither an installed distribution nor Python's library.

    An `editable` install is the program's where recipes may stand in it, else a library.
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
    """Return True if a package comes from an editable install: from a finder, or from a path behind site-packages."""
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
    """Record calls also where their module imported the real loopy; do nothing before loopy is imported.

    A function of loopy itself passes unrecorded, and so does what the program put in the place of one.
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
            # loopy looks into its caller's globals for the version, and here they are those of this module.
            if is_versioned:
                keywords = face.with_version(keywords, names)
            return function(*arguments, **keywords)
        return face.call(name, arguments, keywords)

    # pickle looks for the function there.
    watching.__module__, watching.__qualname__ = "loopy", name
    return watching
