"""Why a call was refused, in the words of the user: the argument at fault, what was given, and what is accepted.

Imported when a call has failed. The front ends and OpenCL say the same in their own terms, and of some values nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import pyopencl as cl

from kcl.launch import ARRAYS

_SCALARS = frozenset({"Scalar", "ValueArg"})
_NO_NUMBERS = (str, bytes, list, tuple, dict, set, frozenset)
_FAILED = "clBuildProgram failed: BUILD_PROGRAM_FAILURE"
_SHOWN = 40  # characters of a value


class Known(Protocol):
    """What is known of an argument of a kernel."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """What its front end calls it: Array, Scalar, ArrayArg, ValueArg and so on."""

    @property
    def dtype(self) -> str:
        """Its dtype, as numpy writes it."""


def at_fault(kernel: str, given: Mapping[str, Any], known: Iterable[Known], packed: Container[str]) -> str:
    """Name the first argument of a call that no call takes; empty where none is at fault.

    `known` lists the arguments of the kernel, nothing where its code is not known. Arguments that are `packed` are
    taken apart by their index, so lists are welcome there.
    """
    arguments = {argument.name: argument for argument in known}
    for name, value in given.items():
        if name in packed or value is None:
            continue
        if arguments and name not in arguments:
            names = ", ".join(arguments)
            return f"kernel {kernel!r} takes no argument {name!r}{meant(name, arguments)}; its arguments are {names}"
        said = _wrong(name, value, arguments.get(name))
        if said:
            return f"kernel {kernel!r}: argument {name!r} {said}"
    return ""


def worded(error: Exception, words: str) -> Exception | None:
    """Return an error of the same class with other words: who catches what loopy's executor raises catches this."""
    try:
        if isinstance(error, cl.Error):
            said: Exception = type(error)(cl._cl._ErrorRecord(msg=words, code=error.code, routine=error.routine))
            return said
        return type(error)(words)
    except TypeError:  # the class wants more than words
        return None


def not_built(kernel: str, recipe: Any, error: Exception) -> Exception | None:
    """Return the error of a program that does not compile once more, with the kernel and the place of its recipe."""
    words = str(error).replace(_FAILED, "").lstrip(" -\n")
    said = f"the program of kernel {kernel!r}{place(recipe)} does not compile\n\n{words}"
    return worded(error, said)


def place(recipe: Any) -> str:
    """Say where a recipe stands, in brackets; nothing where there is none."""
    code = getattr(recipe, "__code__", None)
    return f" (recipe in {code.co_filename}, line {code.co_firstlineno})" if code is not None else ""


def meant(name: str, known: Iterable[str]) -> str:
    """Suggest the name that was meant, if one is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _wrong(name: str, value: Any, argument: Known | None) -> str:
    kind = argument.kind if argument is not None else ""
    if kind in _SCALARS:
        dtype = np.dtype(argument.dtype)  # type: ignore[union-attr]
        if dtype.kind != "V" and (isinstance(value, _NO_NUMBERS) or getattr(value, "ndim", False)):
            return f"is a number of dtype {dtype}, not {_shown(value)}"
        return ""
    is_array = hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, np.generic)
    if kind == "Array" and isinstance(value, cl.MemoryObjectHolder):
        return ""  # of a Source, whose sizes may be given
    if kind in ARRAYS and not is_array:
        dtype = np.dtype(argument.dtype)  # type: ignore[union-attr]
        return f"is an array of dtype {dtype}, not {_shown(value)}; {_cure(name, value, dtype)}"
    if not kind and (isinstance(value, _NO_NUMBERS) or _is_memory(value)):
        return f"is {_shown(value)}; {_cure(name, value, None)}, or a number"
    return ""


def _cure(name: str, value: Any, dtype: Any) -> str:
    of = f"np.{dtype}" if dtype is not None and dtype.isbuiltin == 1 else "dtype"
    if _is_memory(value):
        return f"write {name}=pyopencl.array.Array(queue, shape, {of}, data=buffer)"
    if isinstance(value, (list, tuple)):
        return f"write {name}=np.array(..., {of}), or give a pyopencl.array.Array"
    return "give a numpy array or a pyopencl.array.Array"


def _is_memory(value: Any) -> bool:
    return isinstance(value, (cl.MemoryObjectHolder, cl.SVM, cl.SVMAllocation))


def _shown(value: Any) -> str:
    """Write a type with its value: "the list [1, 2]"; of others the type alone."""
    kind = type(value).__name__
    if getattr(value, "ndim", False):
        return f"an array of shape {value.shape}"
    if not isinstance(value, (*_NO_NUMBERS, int, float, complex, np.generic)):
        return f"a {kind}"
    text = repr(value)
    return f"the {kind} {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"
