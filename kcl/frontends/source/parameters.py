"""The parameters of a kernel as its text lists them, compared with the arguments that are declared.

OpenCL compares only the sizes of scalars. A list is read where it is plain text, and a type where it is a scalar type
of OpenCL C. An argument is not refused where a macro may stand for a list or a type.
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
_QUALIFIERS = {
    *_SPACES,
    *(f"__{space}" for space in _SPACES),
    "const",
    "volatile",
    "restrict",
    "__restrict",
}
_SIGNS = ("signed", "unsigned")
# The words of a type except its sign, sorted, with the dtype. OpenCL C sets the sizes; the device that of a size_t.
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
    """Raise RecipeError for arguments in another order than the parameters, or with another dtype than theirs.

    Where the preprocessor chooses between several lists, one that fits is enough.
    """
    lists = re.findall(rf"\bvoid\s+{source.entry}\s*\(([^()#]*)\)", _COMMENT.sub(" ", source.code))
    misfits = [_misfit(source, parameters.split(",")) for parameters in lists]
    if misfits and all(misfits):
        raise RecipeError(f"kcl.Source {source.entry!r}: {misfits[0]}")


def _misfit(source: Source, parameters: list[str]) -> str:
    """Say how the arguments contradict a list of parameters; empty if they may fit."""
    return _misorder(source, parameters) or _mistype(source, parameters)


def _misorder(source: Source, parameters: list[str]) -> str:
    """Say if arguments stand in another order than the parameters of their names. One shared name may be by chance."""
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
    """Say which argument has a dtype of another size than its parameter, or a floating one for an integer."""
    if len(parameters) != len(source.arguments):
        return ""
    for argument, parameter in zip(source.arguments, parameters, strict=True):
        if not isinstance(argument, (Array, Scalar)):
            # The dtype of local memory only sets its size.
            continue
        words = _type_words(parameter, isinstance(argument, Array))
        dtype, declared_dtype = _dtype_of_words(words), dtype_of(argument)
        # A pointer to bytes takes any content.
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
    """Return the words of a parameter's type without qualifiers; empty where it is no plain pointer or value."""
    tokens = re.findall(r"\w+|\S", parameter)
    words = [token for token in tokens if token != "*" and token not in _QUALIFIERS]
    is_plain = tokens.count("*") == int(is_pointer) and all(_NAME.fullmatch(word) for word in words)
    return words[:-1] if is_plain and words and words[-1] not in (*_DTYPES, *_SIGNS) else []


def _dtype_of_words(words: list[str]) -> np.dtype[Any] | None:
    """Return the dtype of a scalar type of OpenCL C; None for other types."""
    bare = " ".join(sorted(word for word in words if word not in _SIGNS))
    name = _DTYPES.get(bare or "int") if words else None
    return np.dtype(f"u{name}" if "unsigned" in words else name) if name else None


def _differs(declared: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Compare size and kind of numbers; complex numbers and structures may stand for a row of numbers."""
    if declared.kind not in "biuf":
        return False
    if declared.itemsize != dtype.itemsize:
        return True
    # The bits of a half are often kept as integers: few devices calculate with it.
    is_half = dtype.itemsize == 2
    return not is_half and (declared.kind == "f") != (dtype.kind == "f")


def _may_differ(source: Source, words: list[str]) -> bool:
    """Return True if a word of a type may stand for another type: a macro or a typedef defines it, or a header may."""
    text, named = _COMMENT.sub(" ", source.code), "|".join(words)
    defines = rf"#\s*include|#\s*define\s+({named})\b|\btypedef\b[^;]*\b({named})\s*;"
    return bool(
        re.search(defines, text) or re.search(rf"-D\s*({named})\b", " ".join(source.build_options))
    )
