"""The face of loopy: a program sees it in loopy's place. kcl records the calls to it.

The face records functions that give units, and constructors. A program may name a class, hand it on, test with it in
`isinstance` or extend it without an import; loopy answers other questions. Everything else is loopy's own.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from types import ModuleType, NoneType
from typing import Any

from kcl.record import calls, recorder, table, texts, unmade


class Function:
    """A recorded function of loopy."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = self.dotted = name
        self.__module__ = "loopy"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Record the call, or carry it out."""
        return calls.call(self.__name__, arguments, keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__kcl"):
            raise AttributeError(name)
        return getattr(_real(self.__name__), name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        text: str | None = _real(self.__name__).__doc__
        return text

    @property
    def __wrapped__(self) -> Any:
        """Return loopy's own function; tools show its signature and source."""
        return _real(self.__name__)

    def __repr__(self) -> str:
        return f"<kcl.loopy.{self.__name__}>"

    def __reduce__(self) -> Any:
        return attribute, (self.__name__,)


# Not to be asked of loopy: the names that numpy asks of every object, and the name of a Thing that is not made yet.
_ABSENT = ("dtype", "__array_interface__", "__array_struct__", "dotted")


class Thing(texts.StandIn):
    """A class of loopy, or a member of an enumeration of loopy, by its dotted name."""

    __slots__ = ("__weakref__", "dotted")

    def __init__(self, name: str) -> None:
        self.dotted = name  # below loopy

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.real()) if "." in self.dotted and "loopy" in sys.modules else Thing

    def text(self) -> str:
        """Return the name, as in the texts of loopy's own objects."""
        return f"loopy.{self.dotted}"

    def real(self) -> Any:
        """Return loopy's own object."""
        return _real(self.dotted)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__kcl", "_kcl")) or name in _ABSENT:
            raise AttributeError(name)
        if name in table.MEMBERS.get(self.dotted, ()):
            return thing(f"{self.dotted}.{name}")
        return getattr(self.real(), name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return calls.call(self.dotted, arguments, keywords)

    def __instancecheck__(self, value: Any) -> bool:
        record = unmade.record_of(value)
        if record is not None and "loopy" not in sys.modules and unmade.class_name(record) == self.dotted:
            return True
        if isinstance(value, Thing):
            return isinstance(value.real(), self.real())
        return ("loopy" in sys.modules or type(value) in unmade.KINDS) and isinstance(value, self.real())

    def __subclasscheck__(self, kind: Any) -> bool:
        own = kind.real() if isinstance(kind, Thing) else kind
        return issubclass(own, self.real())

    def __mro_entries__(self, _bases: Any) -> tuple[Any, ...]:
        return (self.real(),)

    def __or__(self, other: Any) -> Any:
        return Either((self, other))

    def __ror__(self, other: Any) -> Any:
        return Either((other, self))

    def __getitem__(self, item: Any) -> Any:
        return self.real()[item]

    def __iter__(self) -> Any:
        return iter(self.real())

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Thing):
            return self.dotted == other.dotted
        return self.real() == other if "loopy" in sys.modules or "." in self.dotted else NotImplemented

    def __hash__(self) -> int:
        return hash(self.real())

    def __bool__(self) -> bool:
        return "." not in self.dotted or bool(self.real())

    def __reduce__(self) -> Any:
        return thing, (self.dotted,)


def _of_real(operation: Callable[..., Any]) -> Any:
    """Return a method that asks loopy's own object."""

    def method(self: Thing, *others: Any) -> Any:
        return operation(self.real(), *[other.real() if isinstance(other, Thing) else other for other in others])

    return method


# The operations by which a program writes loopy's objects into the text of a kernel, and compares them.
_ASKED: dict[str, Callable[..., Any]] = {
    "__repr__": repr,
    "__str__": str,
    "__format__": format,
    "__int__": int,
    "__index__": operator.index,
    "__len__": len,
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
}
for _name, _operation in _ASKED.items():
    setattr(Thing, _name, _of_real(_operation))


class Either:
    """A union of types that contains a type of loopy, as in the annotation `lp.TranslationUnit | None`."""

    def __init__(self, members: tuple[Any, ...]) -> None:
        self.members = members

    def __or__(self, other: Any) -> Either:
        return Either((*self.members, other))

    def __ror__(self, other: Any) -> Either:
        return Either((other, *self.members))

    def __instancecheck__(self, value: Any) -> bool:
        return any(isinstance(value, one or NoneType) for one in self.members)

    def __subclasscheck__(self, kind: Any) -> bool:
        return any(issubclass(kind, one or NoneType) for one in self.members)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__kcl", "_kcl")) or name == "members":  # of an object that is not made yet
            raise AttributeError(name)
        return getattr(self._real(), name)

    def __call__(self) -> Any:  # `typing` takes any callable for a type
        return self._real()()

    def __eq__(self, other: object) -> Any:
        return self._real() == (other._real() if isinstance(other, Either) else other)

    def __hash__(self) -> int:
        return hash(self._real())

    def __repr__(self) -> str:
        return repr(self._real())

    def _real(self) -> Any:
        own = [one.real() if isinstance(one, Thing) else one for one in self.members]
        return functools.reduce(operator.or_, own)


@functools.cache
def thing(name: str) -> Thing:
    """Return the stand-in for a class or member; the same for the same name."""
    return Thing(name)


def attribute(name: str) -> Any:
    """Return the face's object under a name of loopy; raise AttributeError where loopy lacks the name."""
    if name in _FUNCTIONS:
        return _function(name)
    if name in _CLASSES or (name in table.TYPES and "loopy" not in sys.modules):
        return thing(name)
    if name in table.WARNINGS:
        from kcl.record import conditions

        return getattr(sys.modules.get("loopy.diagnostic"), name, conditions.WARNINGS[name])
    if name == table.VERSION_SYMBOL:
        return table.VERSION
    return getattr(recorder.loopy(name), name)


# Constructors that are classes: programs also ask for them and extend them.
_CLASSES = frozenset(table.CONSTRUCTORS) - {"GlobalArg"}
_FUNCTIONS = (table.DEFERRED | table.AT_ONCE) - _CLASSES
_function = functools.cache(Function)


def _real(name: str) -> Any:
    found = recorder.loopy(name)
    for part in name.split("."):
        found = getattr(found, part)
    return getattr(found, "__kcl_real__", found)


def _module(name: str) -> ModuleType:
    import importlib

    recorder.loopy(name)
    return importlib.import_module(name)


class Face(ModuleType):
    """A module of loopy as a program sees it: its public names are the face's, its other names loopy's own."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__["__path__"] = []
        self.__dict__["__kcl_lazy_module__"] = name

    def __getattr__(self, name: str) -> Any:
        module = self.__name__
        if name == "__all__":
            return _starred(_module(module))
        if name.startswith("_") and "loopy" not in sys.modules:  # tools ask every object for their own names
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name.startswith("__") or (module, name) in table.NAMESAKES:
            return getattr(_module(module), name)
        if f"{module}.{name}" in FACED:
            return submodule(f"{module}.{name}")
        if module == "loopy" or name in _KNOWN:
            found = attribute(name)
            if type(found) is Function:  # it is the same at all times
                self.__dict__[name] = found
            return found
        return getattr(_module(module), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_module(self.__name__), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return dir(_module(self.__name__))


def has(module: str, names: Any) -> bool:
    """Tell whether the face can answer an import of `names` from a module, or of the module, without loopy."""
    return module in FACED and all(name == "*" or name in _KNOWN or f"{module}.{name}" in FACED for name in names or ())


def _starred(module: ModuleType) -> list[str]:
    """List the names of `from module import *`."""
    return list(getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]))


# Public names of the face that do not need loopy.
_KNOWN = table.DEFERRED | table.TYPES | table.AT_ONCE | table.WARNINGS | {table.VERSION_SYMBOL}
FACED = frozenset({"loopy"}) | table.MODULES | table.PACKAGES  # modules that have a face
submodule = functools.cache(Face)  # the argument is the name of the module
face = submodule("loopy")
