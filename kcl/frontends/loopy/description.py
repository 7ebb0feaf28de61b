"""Describes a record in JSON, for entries: it explains a later miss. No key depends on it."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

from kcl.frontends.loopy.plain import loaded
from kcl.frontends.loopy.record import Record, ordered
from kcl.frontends.loopy.table import CONSTRUCTORS

# The most nodes of an expression that is shown in pymbolic's notation.
_LARGE = 10_000


def listing(record: Record) -> dict[str, Any]:
    """Return a record as JSON, in the form of `kcl.inspect.explain.listing`: calls in their order."""
    numbers: dict[str, int] = {}
    calls: list[dict[str, Any]] = []
    reached: dict[str, list[list[str]]] = {}
    shown: dict[str, str] = {}
    for call in ordered(record, lambda made: made.inputs):
        # Equal calls have the same digest and are listed once.
        if call.digest not in numbers:
            calls.append(_call(call, numbers))
            numbers[call.digest] = len(calls)
            counted = [*call.described, *[content for _thing, content in call.rechecked]]
            reached |= {
                content.digest: [*map(list, content.parts)] for content in counted if content.parts
            }
            for thing, content in call.rechecked:
                shown |= {content.exact(): notation} if (notation := _notation(thing)) else {}
    return {"calls": calls, "result": len(calls), "beside": [], "reached": reached, "shown": shown}


def _call(record: Record, numbers: dict[str, int]) -> dict[str, Any]:
    count = len(record.arguments)
    positional, others = record.texts[:count], record.texts[count:]
    parameter_names = parameters(record.function, count)
    labels = [*parameter_names, *map(str, range(len(parameter_names) + 1, count + 1))]
    pairs = [*zip(labels, positional, strict=True), *zip(others[::2], others[1::2], strict=True)]
    return {
        "function": record.function,
        "place": str(record.place),
        "arguments": [[label, _numbered(text, numbers)] for label, text in pairs],
        "positional": count,
    }


# A string or bytes literal, which stays, or a reference to a record.
_REFERENCE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|<(?P<digest>[0-9a-f]{64})>""")


def _numbered(text: str, numbers: dict[str, int]) -> str:
    """Replace the digests of records in a text by the numbers of their calls."""

    def named(match: re.Match[str]) -> str:
        number = numbers.get(match["digest"] or "")
        return match[0] if number is None else f"call {number}"

    return _REFERENCE.sub(named, text) if "<" in text else text


def _notation(value: Any) -> str:
    """Return an expression in pymbolic's notation; empty for another value or a very large expression."""
    kind = loaded("pymbolic.primitives", "ExpressionNode") or loaded(
        "pymbolic.primitives", "Expression"
    )
    try:
        return (
            str(value)
            if kind and isinstance(value, kind) and _size(value, kind, {}) <= _LARGE
            else ""
        )
    except Exception:
        # Objects in the expression may raise anything; the explanation then lacks a line.
        return ""


def _size(value: Any, kind: type, sizes: dict[int, int]) -> int:
    """Return the number of nodes of an expression. A shared part counts in each place, since it is written in each."""
    if id(value) not in sizes:
        fields = getattr(value, "__dataclass_fields__", ())
        parts = [getattr(value, name) for name in fields] if isinstance(value, kind) else value
        sizes[id(value)] = 1 + sum(
            _size(part, kind, sizes) for part in parts if isinstance(part, (kind, tuple))
        )
    return sizes[id(value)]


def parameters(function: str, count: int) -> list[str]:
    """Return the names of the first parameters of a loopy function; empty if loopy is not imported."""
    value: Any = sys.modules.get("loopy")
    for name in CONSTRUCTORS.get(function, function).split("."):
        value = getattr(value, name, None)
    try:
        return _positional(value)[:count] if value is not None else []
    except (TypeError, ValueError):
        return []


def _positional(function: Any) -> list[str]:
    """Return the names of positional parameters; for a class with `*args` those of the base class that takes them."""
    bases = function.__mro__[1:] if isinstance(function, type) else ()
    makers = [function, *(vars(base)["__init__"] for base in bases if "__init__" in vars(base))]
    listed = [[*inspect.signature(maker).parameters.values()] for maker in makers]
    named = next(
        (
            signature
            for signature in listed
            if all(parameter.kind != parameter.VAR_POSITIONAL for parameter in signature)
        ),
        listed[0],
    )
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        parameter.name
        for parameter in named
        if parameter.kind in by_position and parameter.name != "self"
    ]
