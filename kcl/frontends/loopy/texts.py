"""Exact texts of the arguments that a program passes to loopy, and copies of them that are safe from later changes.

Two values with the same text mean the same to loopy. This module handles simple values and containers: Python's, arrays,
and objects of loopy whose attributes a program may set. `callables` handles all other values. A value that may change and
is no such container has no text: its call is carried out at once.
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
# The packages whose classes are written as their public names.
_SHOWING = {"builtins", "numpy", "loopy"}

# Classes whose objects contain no others, are no iterators, and are not called by loopy. `unmade` adds its own.
PLAIN: set[type] = {str, *SIMPLE}
# Here long texts are not replaced by digests, since explanations show them.
_SIMPLE: dict[type, Callable[[Any], str]] = {**SIMPLE, str: repr, bytes: repr}


# Modules of loopy with classes whose objects have attributes that a program may set: arguments, instructions, parts.
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
    """The metaclass of classes that stand for classes of loopy.

    Hashing such a class would ask loopy, so tables have `Instance` as the key for its instances.
    """

    __slots__ = ()


class Instance:
    """The key, in tables by class, for the instances of all stand-in classes."""


class ArgumentParts:
    """What was found in the arguments of one call.

    `inputs` has the records that arguments are results of, in order. `rechecked` has (object, content) for objects whose
    content must be the same at the look-up: callables that loopy calls while it generates, and objects that code normally
    does not change.
    """

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.rechecked: list[tuple[Any, Any]] = []


def real(value: Any) -> Any:
    """Return loopy's own object for a stand-in or a recorded result; any other value unchanged."""
    kind = class_of(value)
    own = OWN.get(kind)
    return own(value) if own is not None else value.real() if issubclass(kind, StandIn) else value


def class_of(value: Any) -> type:
    """Return the class of a value as a key in tables."""
    kind = type(value)
    return Instance if isinstance(kind, StandInType) else kind


def take(value: Any, taken: ArgumentParts) -> tuple[str, Any]:
    """Return the text of a value and a copy of it; raise UnknownInput if it has no exact text."""
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
    """Apply `change` to all values inside containers; a container in which nothing changes is returned as it is."""
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
    """Return True if an argument contains a callable that does not belong to a known library: loopy may call it."""
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
    """Return the SHA-256 of texts, each preceded by its length."""
    # The lengths make the joined text different for any two lists.
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
    """List names and values of a loopy object's attributes, alternating, without stored results."""
    from kcl.frontends.loopy.callables.classes import attributes

    return [*chain.from_iterable(attributes(value, theirs=True))]


def _object(like: Any, items: list[Any]) -> Any:
    """Copy a loopy object with new values of its attributes; stored results are kept."""
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
    """Return the ContainerKind of a value; None if it is no container, or an array of objects or texts."""
    kind = class_of(value)
    return _CONTAINERS.get(kind) or _special(value, kind)


def _special(value: Any, kind: type) -> ContainerKind | None:
    if kind is loaded("numpy", "ndarray"):
        return None if value.dtype.hasobject or value.dtype.kind in "SU" else _ARRAY
    is_known = kind.__module__ in _OPEN or (
        kind.__module__ == "loopy.tools" and kind.__name__ == "Optional"
    )
    is_open = is_known and loaded(kind.__module__, kind.__name__) is kind
    # Members of enumerations, which have this attribute, are written as their names.
    return _OBJECT if is_open and not hasattr(value, "_value_") else None


# Class -> the function that returns text and copy, and the one that returns loopy's own object. Filled by `unmade`.
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
    # A callable of the user may change until loopy calls it, so it is only compared at the look-up.
    if not calls_user(value):
        from kcl.frontends.loopy.callables.classes import require_lasting

        require_lasting(value)
    return _rechecked(value, taken)


def _class(value: type, taken: ArgumentParts) -> tuple[str, Any]:
    name = _public_name(value)
    return _rechecked(value, taken) if name is None else (name, value)


WRITERS[type] = _class


def _rechecked(value: Any, taken: ArgumentParts) -> tuple[str, Any]:
    """Return the text of a value and the value itself, and note that it must be compared at the look-up."""
    from kcl.frontends.loopy.callables.content import content

    counted = content(value)
    taken.rechecked.append((value, counted))
    return counted.exact(), value


def _public_name(value: type) -> str | None:
    """Return a class's public dotted name in Python, numpy or loopy; None for any other class."""
    package, name = package_of(value), value.__name__
    if package not in _SHOWING or loaded(package, name) is not value:
        return None
    return f"{package}.{name}"


def _member(value: Any, kind: type) -> str | None:
    """Return the dotted name of a member of a loopy enumeration; None for any other value."""
    enumeration = _public_name(kind) if package_of(kind) == "loopy" else None
    name = getattr(value, "_name_", None)
    return f"{enumeration}.{name}" if enumeration is not None and isinstance(name, str) else None


def exact_text(value: Any) -> str:
    """Return the text of any value, with a digest of the code that it refers to."""
    from kcl.frontends.loopy.callables.content import content

    return content(value).exact()
