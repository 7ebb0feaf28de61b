"""Who gets the face of loopy: the modules of recipes, and the program's own modules.

`install` puts a function in front of `builtins.__import__`, once; it decides by the module that imports, never by the
moment, and leaves `sys.modules` as it is. A module that imported the real loopy before is recorded at the functions of
the real loopy, in the calls of recipes: `watch` puts a recording function in front of each.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kcl import process

_FACED = "__kcl_faced__"  # in the globals of a module: whether it gets the face

launching: Callable[[], Any]
_import: Callable[..., Any] | None = None  # what stood at `builtins.__import__`: every import reads it


class State:
    """The lock of those who replace functions, and the loopy whose functions are replaced."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.watched: Any = None

    def after_fork(self) -> None:
        self.lock = threading.Lock()  # a thread that is not here may hold the old one


_state = process.shared(State)


def install(launcher: Callable[[], Any]) -> None:
    """Give recipes and the program's own modules the face where they import loopy from now on. Thread-safe.

    `launcher` returns the module that launches recorded units.
    """
    global _import, launching
    launching = launcher
    with _state().lock:
        if _import is None:
            _import = builtins.__import__
            builtins.__import__ = _faced_import


def recipe_in(names: dict[str, Any]) -> None:
    """Note that a recipe stands in the module with these globals: it gets the face."""
    names[_FACED] = True


def _faced_import(  # with the parameters of `builtins.__import__`
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    assert _import is not None
    if name[:5] != "loopy" or level or globals is None or not _is_face_for(name, globals):
        return _import(name, globals, locals, fromlist, level)
    from kcl.record import face, recorder

    if not face.has(name, fromlist):
        recorder.loopy()
        own = _import(name, globals, locals, fromlist, level)
        if fromlist and name not in face.FACED:
            return own
    return face.submodule(name) if fromlist and name != "loopy" else face.face


# A warning that a module gives as it is imported names the line of the import: the frames of Python's importing are not
# counted, and this one is of them.
_faced_import.__code__ = _faced_import.__code__.replace(co_filename="<frozen importlib._bootstrap>")


def _is_face_for(name: str, names: dict[str, Any]) -> bool:
    """Tell whether a module gets the face of what it imports."""
    if name != "loopy" and name[:6] != "loopy.":
        return False
    faced = names.get(_FACED)
    if faced is None:
        faced = names[_FACED] = _is_own(names)
    return bool(faced)


def _is_own(names: dict[str, Any]) -> bool:
    """Tell whether a module belongs to the program: no installed distribution and not Python's library."""
    from kcl.record.callables import distributions

    module = names.get("__name__")
    if not isinstance(module, str) or module.partition(".")[0] in ("loopy", "kcl"):
        return False
    try:
        return distributions.owner(module).kind == distributions.USER
    except Exception:
        return False


def watch() -> None:
    """Record the calls of recipes also where their module imported the real loopy; does nothing before it is imported.

    A function of loopy itself is let through.
    """
    from kcl.record import table

    state, loopy = _state(), sys.modules.get("loopy")
    if loopy is None or loopy is state.watched or not hasattr(loopy, "untag_inames"):
        return
    with state.lock:
        if loopy is state.watched:
            return
        for name in sorted(table.MAKERS | table.TRANSFORMATIONS | {"GlobalArg"}):
            function = getattr(loopy, name, None)
            if isinstance(function, FunctionType):
                setattr(loopy, name, _watching(name, function))
        state.watched = loopy


def _watching(name: str, function: FunctionType) -> Any:
    from kcl.record import recorder

    @functools.wraps(function)
    def watching(*arguments: Any, **keywords: Any) -> Any:
        if not recorder.in_recipe() or _is_loopys(sys._getframe(1)):
            return function(*arguments, **keywords)
        return recorder.call(name, arguments, keywords)

    watching.__kcl_real__ = function  # type: ignore[attr-defined]
    return watching


def _is_loopys(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "loopy"
