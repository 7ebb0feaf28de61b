"""The parameters of a kernel as its text lists them, compared with the arguments that are declared.

OpenCL compares only the sizes of scalars. A list is read where it is plain text, and a type where it is a scalar type
of OpenCL C. An argument is not refused where a macro may stand for a list or a type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kcl.errors import RecipeError
from kcl.generate.frontends.source import Array, Scalar, Source, dtype_of

if TYPE_CHECKING:
    import numpy as np

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SPACES = ("global", "constant", "local", "private")
_QUALIFIERS = frozenset((*_SPACES, *(f"__{space}" for space in _SPACES), "const", "volatile", "restrict", "__restrict"))
_SIGNS = ("signed", "unsigned")
# The words of a type except its sign, sorted, with the dtype. OpenCL C sets the sizes; the device that of a size_t.
_DTYPES = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "int short": "int16",
    "ushort": "uint16",
    "half": "float16",
    "int": "int32",
    "uint": "uint32",
    "float": "float32",
    "long": "int64",
    "int long": "int64",
    "ulong": "uint64",
    "double": "float64",
}


def refuse_unlike(source: Source) -> None:
    """Raise RecipeError for arguments in another order than the parameters, or with another dtype than theirs."""
    lists = _lists(source.code, source.entry)
    _refuse_order(source, lists)
    _refuse_dtype(source, lists)


def _lists(code: str, entry: str) -> list[list[str]]:
    """Return the parameters of each list that the text has for a kernel."""
    found = re.findall(rf"\bvoid\s+{entry}\s*\(([^()#]*)\)", _COMMENT.sub(" ", code))
    return [parameters.split(",") for parameters in found]


def _names(parameters: Iterable[str]) -> list[str]:
    return [(_NAME.findall(parameter) or [""])[-1] for parameter in parameters]


def _refuse_order(source: Source, lists: list[list[str]]) -> None:
    """Refuse arguments in another order than the parameters, by the names that both lists share.

    Where the preprocessor chooses between several lists, those with the most shared names count.
    """
    declared = [argument.name for argument in source.arguments]
    orders = [_names(parameters) for parameters in lists]
    most = max((len(_shared(order, declared)) for order in orders), default=0)
    near = [order for order in orders if len(_shared(order, declared)) == most]
    if most >= 2 and all(_is_other_order(order, declared) for order in near):
        raise RecipeError(
            f"kcl.Source {source.entry!r}: the arguments are declared in the order {', '.join(declared)}, and the "
            f"kernel has the parameters {', '.join(near[0])}; list the arguments in the order of the parameters"
        )


def _is_other_order(order: list[str], declared: list[str]) -> bool:
    """Compare the order of the shared names, and their places where no argument lacks: the driver counts the places."""
    if len(order) == len(declared):
        return any(here != there and here in order for here, there in zip(declared, order, strict=True))
    return _shared(order, declared) != _shared(declared, order)


def _shared(names: list[str], others: list[str]) -> list[str]:
    return [name for name in names if name in others]


def _refuse_dtype(source: Source, lists: list[list[str]]) -> None:
    """Refuse a dtype of another size than the parameter's, and a floating one for integers or the reverse.

    Where the preprocessor chooses between several lists, one that fits is enough.
    """
    misfits = [_misfit(source, parameters) for parameters in lists]
    if misfits and all(misfits):
        raise RecipeError(f"kcl.Source {source.entry!r}: {misfits[0]}")


def _misfit(source: Source, parameters: list[str]) -> str:
    """Say which argument is the first whose dtype cannot be that of the parameter in its place; empty if all may be."""
    if len(parameters) != len(source.arguments):
        return ""
    for argument, parameter in zip(source.arguments, parameters, strict=True):
        if not isinstance(argument, (Array, Scalar)):
            continue  # the dtype of local memory only sets its size
        words = _type_words(parameter, isinstance(argument, Array))
        dtype, declared = _dtype_of_words(words), dtype_of(argument)
        is_raw = isinstance(argument, Array) and dtype is not None and dtype.itemsize == 1  # bytes of any content
        if dtype is not None and not is_raw and _differs(declared, dtype) and not _may_differ(source, words):
            text = " ".join(parameter.split())
            said = (
                f"argument {argument.name!r} is declared with the dtype {declared}, and its parameter in the OpenCL C"
            )
            return f"{said} is {text!r}; declare it with np.{dtype}"
    return ""


def _type_words(parameter: str, is_pointer: bool) -> list[str]:
    """Return the words of a parameter's type without qualifiers; empty where it is no plain pointer or value."""
    tokens = re.findall(r"\w+|\S", parameter)
    words = [token for token in tokens if token != "*" and token not in _QUALIFIERS]
    is_plain = tokens.count("*") == int(is_pointer) and all(_NAME.fullmatch(word) for word in words)
    return words[:-1] if is_plain and words and words[-1] not in (*_DTYPES, *_SIGNS) else []


def _dtype_of_words(words: list[str]) -> np.dtype[Any] | None:
    """Return the dtype of a scalar type of OpenCL C; None for other types."""
    import numpy as np

    bare = " ".join(sorted(word for word in words if word not in _SIGNS))
    name = _DTYPES.get(bare or "int") if words else None
    return np.dtype(f"u{name}" if "unsigned" in words else name) if name else None


def _differs(declared: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Compare size and kind of numbers; complex numbers and structures may stand for a row of numbers."""
    if declared.kind not in "biuf":
        return False
    if declared.itemsize != dtype.itemsize:
        return True
    is_half = dtype.itemsize == 2  # its bits are often kept as integers: few devices calculate with it
    return not is_half and (declared.kind == "f") != (dtype.kind == "f")


def _may_differ(source: Source, words: list[str]) -> bool:
    """Return True if a word of a type may stand for another type: a macro or a typedef defines it, or a header may."""
    text, named = _COMMENT.sub(" ", source.code), "|".join(words)
    defines = rf"#\s*include|#\s*define\s+({named})\b|\btypedef\b[^;]*\b({named})\s*;"
    return bool(re.search(defines, text) or re.search(rf"-D\s*({named})\b", " ".join(source.build_options)))
