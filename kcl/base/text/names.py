"""Readable names for the exact texts of dtypes and classes in keys and entries."""

from __future__ import annotations

import re
from collections.abc import Mapping

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_PLAIN = re.compile(r"[<>=|]?([biufc])(\d+)")
_CLASS = re.compile(r"<class '([^']*)'>")
_DTYPE = re.compile(r"\bdtype\('([^']*)'\)")


def dtype(text: str) -> str:
    """Return the name of a plain dtype, "float32" for "<f4"; return other texts, as of a structure, unchanged."""
    match = _PLAIN.fullmatch(text)
    if match is None:
        return text
    return "bool" if match[1] == "b" else f"{_KINDS[match[1]]}{8 * int(match[2])}"


def of_value(text: str) -> str:
    """Return a text with classes and dtypes replaced by their names.

    That is "numpy.float32" for "<class 'numpy.float32'>", and "float32" for "dtype('<f4')".
    """
    if "<class" in text:
        text = _CLASS.sub(r"\1", text)
    return _DTYPE.sub(lambda match: dtype(match[1]), text) if "dtype(" in text else text


def of_kernel(name: str, parameters: Mapping[str, str]) -> str:
    """Write a kernel with the parameters of its recipe: `matmul(block=16)`."""
    return f"{name}({of_parameters(parameters)})" if parameters else name


def of_parameters(texts: Mapping[str, str]) -> str:
    """Write the parameters of a recipe: `block=16, dtype=numpy.float32`. A name without a value stands alone."""
    return ", ".join([f"{name}={of_value(text)}" if text else name for name, text in texts.items()])
