"""Texts of simple values (numbers, bytes, None), of Python's containers, and of names."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple, NoReturn

from kcl.errors import UnknownInput

# Longer texts are replaced by their digest.
LONG = 512


class StandIn:
    """An object of kcl that stands for an object of loopy: `text` is its text in records, `real` loopy's object."""

    __slots__ = ()

    def text(self) -> str:
        """Return the text that stands for the object in records."""
        raise NotImplementedError

    def real(self) -> Any:
        """Return loopy's object."""
        raise NotImplementedError


def _float(value: float) -> str:
    # All NaNs have the same `repr`, but may differ in their bytes.
    if math.isnan(value):
        return f"nan {struct.pack('<d', value).hex()}"
    return repr(value)


def in_bytes(value: bytes) -> str:
    return (
        repr(value)
        if len(value) <= LONG // 4
        else f"bytes sha256 {hashlib.sha256(value).hexdigest()}"
    )


def shorten(text: str) -> str:
    """Return a text, or its digest if it is long."""
    if len(text) <= LONG:
        return text
    return f"sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _integer(value: int) -> str:
    try:
        return repr(value)
    except ValueError:
        # Python limits the number of decimal digits, but not of hexadecimal ones.
        return hex(value)


# Class of a simple value -> the function that writes its text.
SIMPLE: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: _integer,
    float: _float,
    complex: lambda value: f"complex({_float(value.real)}, {_float(value.imag)})",
    bytes: in_bytes,
    range: repr,
    type(...): repr,
    type(NotImplemented): repr,
}


class ContainerKind(NamedTuple):
    """A class of containers.

    `items` lists the items, keys before their values, without calling overridden methods. `make(like, items)` makes a
    container like another with new items. `text(like, texts)` writes a container with the texts of its items.
    """

    items: Callable[[Any], list[Any]]
    make: Callable[[Any, list[Any]], Any]
    text: Callable[[Any, list[str]], str]


def _sequence(make: Any, opening: str, closing: str) -> ContainerKind:
    # The order of a set depends on the hash seed, so its texts are sorted.
    sort = sorted if make in (set, frozenset) else list
    return ContainerKind(
        lambda value: [*make.__iter__(value)],
        lambda _like, items: make(items),
        lambda _like, texts: f"{opening}{', '.join(sort(texts))}{closing}",
    )


def pairs(items: list[Any]) -> Any:
    """Return (key, value) pairs of a list in which keys and values alternate."""
    return zip(items[::2], items[1::2], strict=True)


def table(make: Any, name: str = "") -> ContainerKind:
    return ContainerKind(
        lambda value: [*chain.from_iterable(make.items(value))],
        lambda _like, items: make(pairs(items)),
        lambda _like, texts: (
            f"{name}{{{', '.join([f'{key}: {item}' for key, item in pairs(texts)])}}}"
        ),
    )


# Containers of Python, and their text in every key.
CONTAINERS: dict[type, ContainerKind] = {
    tuple: _sequence(tuple, "(", ",)"),
    list: _sequence(list, "[", "]"),
    dict: table(dict),
    set: _sequence(set, "set(", ")"),
    frozenset: _sequence(frozenset, "frozenset(", ")"),
}


def package_of(kind: type) -> str:
    """Return the package in a class's `__module__`, which code can set to any value."""
    return str(kind.__module__).partition(".")[0]


def name_of(name: object) -> str:
    """Return the text of an attribute's name: an identifier as it is, any other quoted, so that its end is clear."""
    return name if type(name) is str and name.isidentifier() else repr(name)


def refuse(value: object) -> NoReturn:
    """Raise UnknownInput for an object whose content no key can describe."""
    kind = type(value)
    raise UnknownInput(
        f"the content of a {kind.__module__}.{kind.__qualname__} object cannot be known; give the class a method "
        "__kcl_key__() that returns what decides the outcome, or pass a plain value"
    )
