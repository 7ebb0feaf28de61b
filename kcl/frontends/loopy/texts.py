"""The exact text of a value that a program gives to loopy, and a copy of it that later changes do not reach.

Two values with one text mean the same to loopy. This module has the texts of plain values, and of containers: Python's,
arrays, and objects of loopy whose attributes a program may set. `callables` has the texts of all other values. A value
that may change, and that is no such container, has no text: the call is carried out at once.
"""

from __future__ import annotations

import abc
import operator
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from itertools import chain
from typing import Any

from kcl.errors import UnknownInput
from kcl.frontends.loopy.plain import (
    CONTAINERS,
    SIMPLE,
    ContainerKind,
    StandIn,
    hashed,
    loaded,
    package_of,
    pairs,
    table,
)

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_LIBRARIES = {"builtins", "numpy", "loopy", "pymbolic", "islpy", "pyopencl", "pytools"}
# The packages whose classes have texts by name.
_SHOWING = {"builtins", "numpy", "loopy"}

# Classes of objects that hold no others, are no iterators, and are not called by loopy. `unmade` adds its own.
PLAIN: set[type] = {str, *SIMPLE}
# A long text stays whole: an explanation shows it.
_SIMPLE: dict[type, Callable[[Any], str]] = {**SIMPLE, str: repr, bytes: repr}


# Modules of loopy with classes of arguments, instructions and their parts: objects with attributes that may change.
_OPEN = {
    "loopy.kernel.array",
    "loopy.kernel.data",
    "loopy.kernel.instruction",
    "loopy.target.c",
    "loopy.target.opencl",
    "loopy.target.pyopencl",
    "loopy.types",
}


class StandInType(abc.ABCMeta, StandIn):
    """A class of classes that stand for those of loopy.

    The hash of such a class is loopy's, so no table has it as a key: `Instance` is the key of its instances.
    """

    __slots__ = ()


class Instance:
    """Stands in tables for each class that is a stand-in."""


class ArgumentParts:
    """The findings in the arguments of one call.

    `inputs` has the records that the arguments come from, in their order. `rechecked` has the objects that count again
    at the look-up, with their contents: the callables that loopy calls there, and objects that no usual code changes.
    """

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.rechecked: list[tuple[Any, Any]] = []


def real(value: Any) -> Any:
    """Exchange a stand-in, or the result of a record, for loopy's own object."""
    kind = class_of(value)
    own = OWN.get(kind)
    return own(value) if own is not None else value.real() if issubclass(kind, StandIn) else value


def class_of(value: Any) -> type:
    """Return the class of a value as tables have it."""
    kind = type(value)
    return Instance if isinstance(kind, StandInType) else kind


def take(value: Any, taken: ArgumentParts) -> tuple[str, Any]:
    """Return the text of a value and a copy of it; raise UnknownInput where the value has no exact text."""
    kind = class_of(value)
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple(value), value
    write = WRITERS.get(kind)
    if write is not None:
        return write(value, taken)
    row = container(value)
    if row is None:
        return _other(value, kind, taken)
    try:
        both = [take(item, taken) for item in row.items(value)]
    except RecursionError:
        raise UnknownInput(
            "containers are nested too deeply to be compared, or hold themselves"
        ) from None
    return row.text(value, [text for text, _ in both]), row.make(
        value, [copied for _, copied in both]
    )


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change the values in containers; a container in which no value changes is passed on as it is."""
    kind = class_of(value)
    if kind is str or kind in SIMPLE:
        return value
    row = container(value)
    if row is None:
        return change(value)
    before = row.items(value)
    items = [mapped(item, change) for item in before]
    return value if all(map(operator.is_, items, before)) else row.make(value, items)


def calls_user(value: Any) -> bool:
    """Return True if an argument holds a callable of the program, which loopy may call. Those of libraries are known."""
    kind = class_of(value)
    if kind in PLAIN:
        return False
    row = container(value)
    if row is not None:
        return any(map(calls_user, row.items(value)))
    if not callable(value) or issubclass(kind, StandIn):
        return False
    owner = value if isinstance(value, type) else kind
    return kind in _FUNCTIONS or package_of(owner) not in _LIBRARIES


def digest(texts: list[str]) -> str:
    """Return the SHA-256 of some texts, each preceded by its length."""
    # With the lengths no two lists of texts join to one text.
    return hashed("".join([f"{len(text)}:{text}" for text in texts]))


_CONTAINERS: dict[type, ContainerKind] = {
    **CONTAINERS,
    OrderedDict: table(OrderedDict, "OrderedDict"),
    defaultdict: ContainerKind(
        lambda value: [value.default_factory, *chain.from_iterable(value.items())],
        lambda _like, items: defaultdict(items[0], pairs(items[1:])),
        lambda _like, texts: f"defaultdict({CONTAINERS[tuple].text((), texts)})",
    ),
}


def _attributes(value: Any) -> list[Any]:
    """List names and values of an object of loopy, without what it remembers of results."""
    from kcl.frontends.loopy.callables.classes import attributes

    return [*chain.from_iterable(attributes(value, theirs=True))]


def _object(like: Any, items: list[Any]) -> Any:
    """Copy an object of loopy, with other values of its attributes; what it remembers stays."""
    copied = object.__new__(type(like))
    for name, item in chain(getattr(like, "__dict__", {}).items(), pairs(items)):
        object.__setattr__(copied, name, item)
    return copied


_OBJECT = ContainerKind(
    _attributes,
    _object,
    lambda like, texts: table(dict, f"{type(like).__module__}.{type(like).__qualname__}").text(
        like, texts
    ),
)
_ARRAY = ContainerKind(
    lambda _value: [], lambda like, _items: like.copy("K"), lambda like, _texts: exact_text(like)
)


def container(value: Any) -> ContainerKind | None:
    """Return the row of a value's class; None for a value of another class, and for an array of objects or texts."""
    kind = class_of(value)
    return _CONTAINERS.get(kind) or _special(value, kind)


def _special(value: Any, kind: type) -> ContainerKind | None:
    if kind is loaded("numpy", "ndarray"):
        return None if value.dtype.hasobject or value.dtype.kind in "SU" else _ARRAY
    is_known = kind.__module__ in _OPEN or (
        kind.__module__ == "loopy.tools" and kind.__name__ == "Optional"
    )
    is_open = is_known and loaded(kind.__module__, kind.__name__) is kind
    # Members of enumerations have this attribute. They have texts by name.
    return _OBJECT if is_open and not hasattr(value, "_value_") else None


# By class: what writes a text and a copy, and what leads to loopy's own object. `unmade` adds its own.
WRITERS: dict[type, Callable[[Any, ArgumentParts], tuple[str, Any]]] = {}
OWN: dict[type, Callable[[Any], Any]] = {}


def _other(value: Any, kind: type, taken: ArgumentParts) -> tuple[str, Any]:
    if issubclass(kind, StandIn):
        return value.text(), value
    if hasattr(kind, "__next__"):
        raise UnknownInput("what an iterator gives is not known before it was asked")
    if isinstance(value, type):
        return _class(value, taken)
    name = _member(value, kind)
    if name is not None:
        return name, value
    # loopy calls a callable of the user while it generates: so its content counts at the look-up.
    if not calls_user(value):
        from kcl.frontends.loopy.callables.classes import require_lasting

        require_lasting(value)
    return _rechecked(value, taken)


def _class(value: type, taken: ArgumentParts) -> tuple[str, Any]:
    name = _public_name(value)
    return _rechecked(value, taken) if name is None else (name, value)


WRITERS[type] = _class


def _rechecked(value: Any, taken: ArgumentParts) -> tuple[str, Any]:
    """Return the text of a value, which counts again at the look-up, and the value itself."""
    from kcl.frontends.loopy.callables.content import content

    counted = content(value)
    taken.rechecked.append((value, counted))
    return counted.exact(), value


def _public_name(value: type) -> str | None:
    """Return the dotted name under which Python, numpy or loopy shows a class; None for any other."""
    package, name = package_of(value), value.__name__
    if package not in _SHOWING or loaded(package, name) is not value:
        return None
    return f"{package}.{name}"


def _member(value: Any, kind: type) -> str | None:
    """Return the text of a member of one of loopy's enumerations, which is its name; None for any other value."""
    enumeration = _public_name(kind) if package_of(kind) == "loopy" else None
    name = getattr(value, "_name_", None)
    return f"{enumeration}.{name}" if enumeration is not None and isinstance(name, str) else None


def exact_text(value: Any) -> str:
    """Return the text of any value, with a digest of the code and the distributions that it leads to."""
    from kcl.frontends.loopy.callables.content import content

    return content(value).exact()
