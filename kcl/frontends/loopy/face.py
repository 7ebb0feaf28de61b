"""The face of loopy: a module that a program gets in place of loopy, and that records calls.

It records calls of functions that return units, and of constructors. A program may refer to a class of loopy, pass it on,
use it in `isinstance` or derive from it, all without an import of loopy. Everything else is loopy's own, and imports it.

A call is recorded, or carried out at once with loopy's own objects. It is carried out at once if an argument has no exact
text, if loopy would run code of the user during the call, or if its result is not a unit but an answer.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import FunctionType, MethodType, ModuleType, TracebackType
from typing import Any

from kcl.base import events, port
from kcl.frontends.loopy import moment, plain, recorder, table, texts, unmade
from kcl.frontends.loopy.record import CallSite, Record

# The modules of iterator classes, whose instances can be read only once.
_ITERATORS = frozenset({"builtins", "itertools"})


class Function(unmade.Name):
    """The face's function for a function of loopy. It means loopy's original, even if the program has replaced that."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__name__ = self.__qualname__ = name

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return FunctionType

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Record the call, or carry it out. Tracebacks show no frames of kcl."""
        try:
            return call(self.__name__, arguments, keywords)
        except Exception as error:
            # pytest hides a frame with this variable.
            __tracebackhide__ = True
            raise error.with_traceback(_without_kcl(error.__traceback__))  # noqa: B904 - the same error

    def __get__(self, holder: Any, kind: Any = None) -> Any:
        return self if holder is None else MethodType(self, holder)

    def __getattribute__(self, name: str) -> Any:
        return (
            self.__wrapped__.__module__ if name == "__module__" else super().__getattribute__(name)
        )

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        text: str | None = self.__wrapped__.__doc__
        return text

    @property
    def __wrapped__(self) -> Any:
        """loopy's own function, whose signature and source tools show."""
        return unmade.asked_for(self)

    def __deepcopy__(self, _memo: Any = None) -> Function:
        return self

    __copy__ = __deepcopy__

    def __repr__(self) -> str:
        return f"<kcl.loopy.{self.__name__}>"

    def __reduce__(self) -> Any:
        return attribute, (self.__name__,)


def attribute(name: str) -> Any:
    """Return the face's attribute of this name; raise AttributeError if loopy has none. For unpickling."""
    return getattr(face, name)


def _stand_in(name: str) -> Any:
    """Return the object of the face for a name of `_KNOWN`."""
    if name in _FUNCTIONS:
        return _function(name)
    if name in _CLASSES:
        return unmade.kind_of(name)
    if name in table.WARNINGS:
        from kcl.frontends.loopy import warned

        return warned.WARNINGS[name]
    return table.VERSION


# Constructors that are classes, which programs also use in `isinstance` and derive from.
_CLASSES = (frozenset(table.CONSTRUCTORS) - {"GlobalArg"}) | table.TYPES
_FUNCTIONS = (table.DEFERRED | table.AT_ONCE) - _CLASSES
# Names that mean loopy's own objects once the program has asked a question that made loopy carry units out.
_MADE = table.CONSTRUCTORS.keys() | table.TYPES
_function = functools.cache(Function)


def _module(name: str) -> ModuleType:
    from kcl.frontends.loopy import making

    making.loopy(name)
    return importlib.import_module(name)


class Face(ModuleType):
    """The face of loopy or of one of its modules. Recorded names give objects of the face, all others loopy's own.

    If the program has replaced a name in loopy, the face returns the program's object. An object of the face, once read,
    always means loopy's original.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # Deleted, so that reading them calls `__getattr__`.
        for own in ("__doc__", "__loader__", "__package__", "__spec__"):
            del self.__dict__[own]
        self.__dict__["__kcl_lazy_module__"] = name

    def __getattr__(self, name: str) -> Any:
        module = self.__kcl_lazy_module__
        if name == "__all__":
            own = _module(module)
            return list(
                getattr(own, name, [public for public in vars(own) if not public.startswith("_")])
            )
        if unmade.is_absent(name) or (name.startswith("__") and module != self.__name__):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if f"{module}.{name}" in FACED:
            return submodule(f"{module}.{name}")
        if name not in _KNOWN or (module, name) in table.NAMESAKES:
            return getattr(_module(module), name)
        # The version symbol is only in loopy.version, not in each module with a face.
        if moment.loaded() is None or name == table.VERSION_SYMBOL:
            return _stand_in(name)
        from kcl.frontends.loopy import making

        value = getattr(importlib.import_module(module), name)
        is_loopys = name in table.WARNINGS or (recorder.thread.asked and name in _MADE)
        return value if is_loopys or not making.is_own(name, value) else _stand_in(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") and self.__kcl_lazy_module__ != self.__name__:
            # Python's import sets such names on a module that it has made.
            super().__setattr__(name, value)
            return
        setattr(
            _module(self.__kcl_lazy_module__),
            name,
            value.real() if isinstance(value, plain.StandIn) else value,
        )

    def __delattr__(self, name: str) -> None:
        delattr(_module(self.__kcl_lazy_module__), name)

    def __dir__(self) -> list[str]:
        return dir(_module(self.__kcl_lazy_module__))


def _without_kcl(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without kcl's frames at its beginning."""
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("kcl."):
        trace = trace.tb_next
    return trace


def has(module: str, names: Any) -> bool:
    """Return True if the face can serve an import of a module, or of `names` from it, without importing loopy."""
    return module in FACED and all(
        name == "*" or name in _KNOWN or f"{module}.{name}" in FACED for name in names or ()
    )


def call(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Record or carry out a call of `loopy.<name>`. The caller's frame is two frames up."""
    place = CallSite(sys._getframe(2))
    if name in table.VERSIONED:
        keywords = with_version(keywords, place.names)
    record = _recorded(name, arguments, keywords, place) if recorder.is_on() else None
    return (
        _launched_by_kcl(name, _at_once(name, arguments, keywords))
        if record is None
        else unmade.answer(record)
    )


def _recorded(
    name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], place: CallSite
) -> Record | None:
    """Return the record of a call; None if the call must be carried out at once."""
    if (
        name not in table.DEFERRED
        or not _is_about_units(name, arguments)
        or _calls_user(name, arguments, keywords)
    ):
        return None
    return recorder.recorded(name, arguments, keywords, place)


def _is_about_units(name: str, arguments: tuple[Any, ...]) -> bool:
    """Return True if a call makes a unit, or transforms one that is known by its record.

    A unit is not known any more once the program has got parts of it, which it may change at any time.
    """
    record = unmade.record_of(arguments[0]) if arguments else None
    return name not in table.TRANSFORMATIONS or (record is not None and not record.is_spoiled())


def _calls_user(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Return True if loopy may run code of the user during a call."""
    later = table.FOR_GENERATING.get(name, frozenset())
    labelled = [*enumerate(arguments), *keywords.items()]
    try:
        return any(texts.calls_user(value) for place, value in labelled if place not in later)
    except RecursionError:
        # A value that contains itself: it cannot be recorded anyway.
        return False


def _launched_by_kcl(name: str, made: Any) -> Any:
    """Return loopy's own unit from a call that was not recorded, prepared so that kcl launches it by its content."""
    # Not for units of recipes or of kcl's own calls.
    is_programs = not (recorder.thread.carrying or recorder.thread.call)
    if name in table.DEFERRED and is_programs and unmade.is_unit(made):
        port("units").take(made)
    return made


def with_version(keywords: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Add the `lang_version` that the caller's globals choose, as loopy does by looking into them."""
    if keywords.get("lang_version") is not None or table.VERSION_SYMBOL not in names:
        return keywords
    return {**keywords, "lang_version": names[table.VERSION_SYMBOL]}


def _at_once(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call loopy's own function with loopy's own objects."""

    def own(value: Any) -> Any:
        kind = type(value)
        # An iterator is wrapped and not read, so that loopy reads as much of it as it needs.
        if kind.__module__ in _ITERATORS and hasattr(kind, "__next__"):
            return map(own_in, value)
        if issubclass(kind, plain.StandIn):
            return value.real()
        return unmade.asked(value, name)

    def own_in(value: Any) -> Any:
        return texts.mapped(value, own)

    # A value that contains itself is passed on unchanged.
    with suppress(RecursionError):
        arguments, keywords = own_in((arguments, keywords))
    from kcl.frontends.loopy import making

    making.loopy(name)
    return making.own(name)(*arguments, **keywords)


def _constructed(kind: Any, *arguments: Any, **keywords: Any) -> Any:
    """Record the call of one of the face's classes, or carry it out."""
    return call(kind.__name__, arguments, keywords)


unmade.Kind.__call__ = _constructed  # type: ignore[method-assign, assignment]


# Public names of the face that do not need loopy.
_KNOWN = table.DEFERRED | table.TYPES | table.AT_ONCE | table.WARNINGS | {table.VERSION_SYMBOL}
# The modules that have a face.
FACED = frozenset({"loopy"}) | table.MODULES | table.PACKAGES
# The face of a module by its name; each is made once.
submodule = functools.cache(Face)
face = submodule("loopy")
# Importing the face is a use of kcl, so there is a report if the user wants one.
events.listen()
