"""The texts of values that hold no other values, and the order of the elements of sets."""

from __future__ import annotations

import hashlib
import math
import struct
import types
from collections.abc import Callable
from typing import Any

from kcl.errors import UnknownInput
from kcl.record.callables.readings import digest

LONG = 512  # characters; longer texts count by digest


def _float(value: float) -> str:
    if math.isnan(value):
        return f"nan {struct.pack('<d', value).hex()}"
    return repr(value)


def _complex(value: complex) -> str:
    return f"complex({_float(value.real)}, {_float(value.imag)})"


def in_bytes(value: bytes) -> str:
    return repr(value) if len(value) <= LONG // 4 else f"bytes sha256 {hashlib.sha256(value).hexdigest()}"


def _range(value: range) -> str:
    return f"range({value.start}, {value.stop}, {value.step})"


def _integer(value: int) -> str:
    try:
        return repr(value)
    except ValueError:  # it has more digits than the interpreter may write
        return hex(value)


# texts of values that hold no other values
SIMPLE: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: _integer,
    float: _float,
    complex: _complex,
    bytes: in_bytes,
    range: _range,
    type(...): repr,
    type(NotImplemented): repr,
}


def rank(value: Any) -> tuple[str, str]:
    """Give elements of a set an order that no walk and no address decides."""
    kind = type(value)
    simple = SIMPLE.get(kind)
    if simple is not None:
        return (kind.__name__, simple(value))
    if kind is str:
        return ("str", repr(value))
    if isinstance(value, (types.FunctionType, type)):
        code = getattr(value, "__code__", None)
        if code is not None:
            return (kind.__name__, f"{value.__qualname__} {digest(code)}")
        return (kind.__name__, f"{value.__module__} {value.__qualname__}")
    if kind is tuple or kind is frozenset:
        ranks = [rank(item) for item in value]
        return (kind.__name__, repr(ranks if kind is tuple else sorted(ranks)))
    raise UnknownInput("no order")


def name_of(name: object) -> str:
    """Return the text of an attribute's name: itself where it is an identifier, else quoted, which marks its end."""
    return name if type(name) is str and name.isidentifier() else repr(name)


def label_of(name: str) -> str:
    """Return the text of the name of a function or class, in which dots and angle brackets are usual."""
    plain = name.replace(".", "").replace("<", "").replace(">", "")
    return name if plain.isidentifier() else repr(name)
