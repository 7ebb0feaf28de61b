"""The face of loopy: a program sees it in loopy's place. kcl records the calls to it.

The face records functions that give units, and constructors. A program may name a class, hand it on, test with it in
`isinstance` or extend it without an import; loopy answers other questions. Everything else is loopy's own.
"""

from __future__ import annotations

import functools
import importlib
from types import FunctionType, MethodType, ModuleType
from typing import Any

from kcl.base import events
from kcl.record import calls, recorder, table, texts, unmade


class Function(texts.StandIn):
    """A recorded function of loopy. It stands for loopy's own, also after the program put another in its place."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return FunctionType

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Record the call, or carry it out."""
        return calls.call(self.__name__, arguments, keywords)

    def text(self) -> str:
        """Return the name, as in the texts of loopy's own objects."""
        return f"loopy.{self.__name__}"

    def real(self) -> Any:
        """Return loopy's own function."""
        return recorder.own(self.__name__)

    def __get__(self, holder: Any, kind: Any = None) -> Any:
        return self if holder is None else MethodType(self, holder)

    def __getattribute__(self, name: str) -> Any:
        return self.__wrapped__.__module__ if name == "__module__" else super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if unmade.is_absent(name) and name != "__wrapped__":
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        text: str | None = self.__wrapped__.__doc__
        return text

    @property
    def __wrapped__(self) -> Any:
        """Return loopy's own function; tools show its signature and source."""
        recorder.loopy(self.__name__)
        return self.real()

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, _memo: Any) -> Function:
        return self

    def __repr__(self) -> str:
        return f"<kcl.loopy.{self.__name__}>"

    def __reduce__(self) -> Any:
        return attribute, (self.__name__,)


def attribute(name: str) -> Any:
    """Return the face's object under a name of loopy; raise AttributeError if loopy lacks the name."""
    return getattr(face, name)


def _stand_in(name: str) -> Any:
    """Return the object of the face for a name of `_KNOWN`."""
    if name in _FUNCTIONS:
        return _function(name)
    if name in _CLASSES:
        return unmade.kind_of(name)
    if name in table.WARNINGS:
        from kcl.record import conditions

        return conditions.WARNINGS[name]
    return table.VERSION


# Constructors that are classes: programs also ask for them and extend them.
_CLASSES = (frozenset(table.CONSTRUCTORS) - {"GlobalArg"}) | table.TYPES
_FUNCTIONS = (table.DEFERRED | table.AT_ONCE) - _CLASSES
_MADE = table.CONSTRUCTORS.keys() | table.TYPES  # names that are loopy's own once the program has asked a question
_function = functools.cache(Function)


def _module(name: str) -> ModuleType:
    recorder.loopy(name)
    return importlib.import_module(name)


class Face(ModuleType):
    """A module of loopy as a program sees it: its public names are the face's, its other names loopy's own.

    A name stands for what loopy has under it when the program reads it. What the program put there is handed out as it
    is; the face's own objects stand for loopy's for good.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        for own in ("__doc__", "__loader__", "__package__", "__spec__"):
            del self.__dict__[own]
        self.__dict__["__kcl_lazy_module__"] = name

    def __getattr__(self, name: str) -> Any:
        module = self.__kcl_lazy_module__
        if name == "__all__":
            own = _module(module)
            return list(getattr(own, name, [each for each in vars(own) if not each.startswith("_")]))
        if unmade.is_absent(name) or (name.startswith("__") and module != self.__name__):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if f"{module}.{name}" in FACED:
            return submodule(f"{module}.{name}")
        if name not in _KNOWN or (module, name) in table.NAMESAKES:
            return getattr(_module(module), name)
        if recorder.loaded() is None or name == table.VERSION_SYMBOL:  # that lies in loopy.version
            return _stand_in(name)
        found = getattr(importlib.import_module(module), name)
        is_answered = recorder.thread.asked and name in _MADE
        return _stand_in(name) if recorder.is_own(name, found) and not is_answered else found

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") and self.__kcl_lazy_module__ != self.__name__:
            super().__setattr__(name, value)  # of the import system
            return
        recorder.settle()
        if type(value) is Function:
            value = recorder.placed(value.__name__)
        setattr(_module(self.__kcl_lazy_module__), name, value.real() if isinstance(value, unmade.Kind) else value)

    def __delattr__(self, name: str) -> None:
        recorder.settle()
        delattr(_module(self.__kcl_lazy_module__), name)

    def __dir__(self) -> list[str]:
        return dir(_module(self.__kcl_lazy_module__))


def has(module: str, names: Any) -> bool:
    """Tell whether the face can answer an import of `names` from a module, or of the module, without loopy."""
    return module in FACED and all(name == "*" or name in _KNOWN or f"{module}.{name}" in FACED for name in names or ())


# Public names of the face that do not need loopy.
_KNOWN = table.DEFERRED | table.TYPES | table.AT_ONCE | table.WARNINGS | {table.VERSION_SYMBOL}
FACED = frozenset({"loopy"}) | table.MODULES | table.PACKAGES  # modules that have a face
submodule = functools.cache(Face)  # the argument is the name of the module
face = submodule("loopy")
events.listen()  # a program with the face gets a report
