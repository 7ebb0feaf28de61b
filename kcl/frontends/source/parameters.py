"""Compares the declared arguments of a Source with the kernel's parameters in the OpenCL C.

OpenCL itself compares only the sizes of scalars. Only plain parameter lists and scalar types of OpenCL C are read. If a
macro may stand for a list or a type, nothing is refused.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from kcl.errors import RecipeError
from kcl.frontends.source import Array, Scalar, Source, dtype_of

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SPACES = ("global", "constant", "local", "private")
_QUALIFIERS = frozenset(
    (*_SPACES, *(f"__{space}" for space in _SPACES), "const", "volatile", "restrict", "__restrict")
)
_SIGNS = ("signed", "unsigned")
# Words of a type, sorted, without its sign -> dtype. size_t is left out, since its size depends on the device.
_DTYPES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "int short": "int16",
    "int long": "int64",
}
for _name, _bits in (("char", 8), ("short", 16), ("int", 32), ("long", 64)):
    _DTYPES |= {_name: f"int{_bits}", f"u{_name}": f"uint{_bits}"}


def refuse_unlike(source: Source) -> None:
    """Raise RecipeError if arguments have another order or other dtypes than the kernel's parameters.

    If the text has several parameter lists, between which the preprocessor chooses, one that fits is enough.
    """
    lists = re.findall(rf"\bvoid\s+{source.entry}\s*\(([^()#]*)\)", _COMMENT.sub(" ", source.code))
    misfits = [_misfit(source, parameters.split(",")) for parameters in lists]
    if misfits and all(misfits):
        raise RecipeError(f"kcl.Source {source.entry!r}: {misfits[0]}")


def _misfit(source: Source, parameters: list[str]) -> str:
    """Describe how the arguments contradict a parameter list; empty if they may fit."""
    return _misorder(source, parameters) or _mistype(source, parameters)


def _misorder(source: Source, parameters: list[str]) -> str:
    """Describe a wrong order of the arguments; empty if it may be right, or if fewer than two names are shared."""
    declared = [argument.name for argument in source.arguments]
    names = [(_NAME.findall(parameter) or [""])[-1] for parameter in parameters]
    shared = [name for name in declared if name in names]
    is_in_order = shared == [name for name in names if name in declared]
    is_in_place = len(names) != len(declared) or all(
        names.index(name) == declared.index(name) for name in shared
    )
    if len(shared) < 2 or (is_in_order and is_in_place):
        return ""
    return (
        f"the arguments are declared in the order {', '.join(declared)}, and the kernel has the parameters "
        f"{', '.join(names)}; list the arguments in the order of the parameters"
    )


def _mistype(source: Source, parameters: list[str]) -> str:
    """Describe an argument whose dtype has another size or kind than its parameter; empty if there is none."""
    if len(parameters) != len(source.arguments):
        return ""
    for argument, parameter in zip(source.arguments, parameters, strict=True):
        if not isinstance(argument, (Array, Scalar)):
            # The dtype of local memory only sets its size.
            continue
        words = _type_words(parameter, isinstance(argument, Array))
        dtype, declared_dtype = _dtype_of_words(words), dtype_of(argument)
        # A pointer to bytes may be used for any content.
        is_raw = isinstance(argument, Array) and dtype is not None and dtype.itemsize == 1
        if (
            dtype is not None
            and not is_raw
            and _differs(declared_dtype, dtype)
            and not _may_differ(source, words)
        ):
            place, text = "its parameter in the OpenCL C", " ".join(parameter.split())
            says = f"argument {argument.name!r} is declared with the dtype {declared_dtype}, and {place} is {text!r}"
            return f"{says}; declare it with np.{dtype}"
    return ""


def _type_words(parameter: str, is_pointer: bool) -> list[str]:
    """Return the words of a parameter's type without qualifiers; empty if it is no plain value or pointer."""
    tokens = re.findall(r"\w+|\S", parameter)
    words = [token for token in tokens if token != "*" and token not in _QUALIFIERS]
    is_plain = tokens.count("*") == int(is_pointer) and all(_NAME.fullmatch(word) for word in words)
    return words[:-1] if is_plain and words and words[-1] not in (*_DTYPES, *_SIGNS) else []


def _dtype_of_words(words: list[str]) -> np.dtype[Any] | None:
    """Return the dtype of a scalar type of OpenCL C, given as words; None for another type."""
    bare = " ".join(sorted(word for word in words if word not in _SIGNS))
    name = _DTYPES.get(bare or "int") if words else None
    return np.dtype(f"u{name}" if "unsigned" in words else name) if name else None


def _differs(declared: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return True if dtypes have different sizes or kinds; False for complex numbers and structures, which may fit."""
    if declared.kind not in "biuf":
        return False
    if declared.itemsize != dtype.itemsize:
        return True
    # A half is often declared as an integer of the same size, since few devices compute with it.
    is_half = dtype.itemsize == 2
    return not is_half and (declared.kind == "f") != (dtype.kind == "f")


def _may_differ(source: Source, words: list[str]) -> bool:
    """Return True if a word of a type may mean another type, by a macro, a typedef or a header."""
    text, named = _COMMENT.sub(" ", source.code), "|".join(words)
    defines = rf"#\s*include|#\s*define\s+({named})\b|\btypedef\b[^;]*\b({named})\s*;"
    return bool(
        re.search(defines, text) or re.search(rf"-D\s*({named})\b", " ".join(source.build_options))
    )
