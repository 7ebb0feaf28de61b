"""Rewords the errors of a launch in the user's terms: wrong arguments, wrong recipes, programs that do not compile.

This module is imported when a call has failed. It checks each value of the call against the table of the kernel's
arguments. The new error names the argument at fault, its value, and the values that are accepted. If all arguments fit,
the error of the front end or of OpenCL is kept, with the kernel, the place of its recipe and lines of the program added.
"""

from __future__ import annotations

import inspect
import operator
import os
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Any

import numpy as np
import pyopencl as cl

from kcl.errors import KclError, RecipeError, meant
from kcl.launch import ARRAYS, MissingArguments

_SCALARS = frozenset({"Scalar", "ValueArg"})
# A call of a Source may give these beside its arguments.
_SIZES = ("global_size", "local_size", "global_offset")
# Every call may give these.
_BESIDE = ("allocator", "wait_for", "out_host")
_NO_NUMBERS = (str, bytes, list, tuple, dict, set, frozenset, type)
# The beginning of the file name of an invoker.
_INVOKER = "<kcl invoker of "
_SHOWN = 40  # characters of a value
_FAILED = "clBuildProgram failed: BUILD_PROGRAM_FAILURE"
# "error: FILE:LINE:COLUMN: words" of PoCL, "FILE:LINE:COLUMN: error: words" of clang itself.
_MESSAGE = re.compile(r"^(error: )?([^:\n]+):(\d+):\d+: (?(1)|(?:fatal )?error\b).*$", re.MULTILINE)


def in_words(
    kernel: str,
    line: Any,
    error: Exception,
    arguments: Mapping[str, Any],
    queue: Any,
    fault: str,
) -> Exception | None:
    """Return a clearer error for a failed call of a `kcl.line.Line`; None if the error itself is clear.

    `fault` describes a wrong queue.
    """
    call, base = _FailedCall(kernel, line, error, arguments, queue), line.generate.base
    if base and not fault:
        fault = call.fault()
    # Replaces the error by one of the class that the front end raises.
    instead: Exception | None = None
    if isinstance(error, MissingArguments):
        instead = line.missing_error(error.names)
    elif base and base.names and not call.is_source and not isinstance(error, KclError):
        instead = call.unknown_open()
    elif fault and call.is_source and not isinstance(error, (OverflowError, cl.Error)):
        instead = TypeError(fault)
    if fault or instead is not None:
        return reword(instead or error, fault) if fault else instead
    if isinstance(error, cl.RuntimeError) and error.routine == "clBuildProgram":
        source = call.codes[0].text.source if len(call.codes) == 1 else ""
        return build_error(kernel, line.function, error, source)
    if isinstance(error, RecipeError) and isinstance(error.__cause__, cl.LogicError):
        return RecipeError(f"kernel {kernel!r}{place(line.function)}: {error}")
    return call.named()


class _FailedCall:
    """A call that failed: its kernel, the values it gave, and the error.

    `arguments` has the `kcl.code.Argument` of each argument that a call gives, by name; it is empty if the code is
    unknown. `packed` names arguments that are indexed by element, so they may be lists. A call of a Source may also give
    the sizes of the launch.
    """

    def __init__(
        self, kernel: str, line: Any, error: Exception, given: Mapping[str, Any], queue: Any
    ) -> None:
        self.kernel = kernel
        self.given = line.drop_sizes(given)
        self.error = error
        self.queue = queue
        self.arguments = given_in_calls(line.arguments)
        self.packed = line.generate.base.packed if line.generate.base else ()
        self.codes = [ready.code for ready in line.ready.values()]
        self.is_source = any(code.invoker.front_end == "opencl" for code in self.codes)

    def fault(self) -> str:
        """Describe the first wrong argument; empty if all are right."""
        names = [*self.arguments]
        for name, value in self.given.items():
            if name in self.packed or value is None:
                continue
            if name in _SIZES and name not in names and (self.is_source or names):
                fault = f"loopy finds the sizes of its kernels; leave {name} out"
                if self.is_source:
                    fault = _wrong_size(name, value)
            elif names and name not in names:
                beside = (*_SIZES, *_BESIDE) if self.is_source else _BESIDE
                says = (
                    f"its arguments are {', '.join(names)}; a call also takes {', '.join(beside)}"
                )
                return f"{_unknown(self.kernel, name, [*names, *beside])}; {says}"
            else:
                misfit = self._misfit(name, value)
                fault = misfit and f"argument {name!r} {misfit}"
            if fault:
                return f"kernel {self.kernel!r}: {fault}"
        return ""

    def unknown_open(self) -> KeyError | None:
        """Return the KeyError that loopy raises for an unknown argument when dtypes are open; None if all are known."""
        accepted = {*self.arguments, *self.packed, *_SIZES}
        unknown = [name for name in self.given if name not in accepted]
        return KeyError(unknown[0]) if self.arguments and unknown else None

    def named(self) -> Exception | None:
        """Return the invoker's error with the name of the kernel added; None if the error comes from elsewhere."""
        error = self.error
        frames = (frame for frame, _line in traceback.walk_tb(error.__traceback__))
        below = list(
            dropwhile(lambda frame: not frame.f_code.co_filename.startswith(_INVOKER), frames)
        )
        mine = (_INVOKER, os.path.dirname(cl.__file__))
        if not below or not all(frame.f_code.co_filename.startswith(mine) for frame in below):
            # An allocator of the user raises its own errors.
            return None
        sizes = {name: self.given.get(name) for name in _SIZES if self.is_source}
        reason = str(error)
        # pyopencl's message begins with the routine and the status.
        if isinstance(error, cl.Error):
            reason = reason.partition(" - ")[2]
            if sizes and error.code == cl.status_code.INVALID_WORK_GROUP_SIZE:
                # The sizes that the invoker used, whether the call or the declaration gave them.
                sizes = {name: below[0].f_locals[name] for name in _SIZES[:2]}
                pairs = zip(*[size or () for size in sizes.values()], strict=False)
                wrong = (f"{n} is no multiple of {m}" for n, m in pairs if m and n % m)
                reason = next(wrong, reason)
        size_texts = [f"{name}={size!r}" for name, size in sizes.items() if size is not None]
        where = f"kernel {self.kernel!r}" + f" with {', '.join(size_texts)}" * bool(size_texts)
        return reword(error, f"{where}: {reason}" if reason else where)

    def _misfit(self, name: str, value: Any) -> str:
        """Describe why a value does not fit its argument; if the argument or its dtype is unknown, most values fit."""
        argument = self.arguments.get(name)
        kind, text = (argument.kind, argument.dtype) if argument is not None else ("", "")
        dtype = _dtype(text) if text and kind in ARRAYS | _SCALARS else None
        if dtype is not None and kind in _SCALARS:
            if _is_number(self.error, value, dtype):
                return ""
            number = "a whole number" if dtype.kind in "iu" else "a number"
            return f"is {number} of dtype {dtype}, not {_shown(value)}"
        has_dtype = hasattr(value, "dtype") and not isinstance(value, np.generic)
        if has_dtype and isinstance(value.dtype, np.dtype) and hasattr(value, "strides"):
            return self._array_fault(name, value)
        is_memory = isinstance(value, (cl.MemoryObjectHolder, cl.SVMPointer))
        is_memory = is_memory and not isinstance(value, cl.Image)
        if dtype is not None:
            # An array of a Source may be memory, as a call may give the sizes.
            if kind == "Array" and is_memory:
                return ""
            element = f"np.{dtype}" if dtype.isbuiltin == 1 else "dtype"
            return (
                f"is an array of dtype {dtype}, not {_shown(value)}; {_cure(name, value, element)}"
            )
        # Images and samplers are left to the invoker.
        is_other = kind and kind not in ARRAYS | _SCALARS
        if is_other or not (is_memory or has_dtype or isinstance(value, _NO_NUMBERS)):
            return ""
        return f"is {_shown(value)}; {_cure(name, value, 'dtype')}, or a number"

    def _array_fault(self, name: str, array: Any) -> str:
        """Describe the fault of an array apart from its dtype; empty for none."""
        context = getattr(array, "context", None)
        if self.queue is not None and context is not None and context != self.queue.context:
            return "lies in another context than the queue; give an array of the queue's context"
        is_copied = isinstance(array, np.ndarray) and isinstance(self.error, RuntimeError)
        if is_copied and not array.flags.forc:
            says = f"has the strides {array.strides}: an array with gaps or in reverse cannot be copied to a device"
            return f"{says}; write {name}=np.ascontiguousarray(...)"
        return ""


def given_in_calls(arguments: Iterable[Any]) -> dict[str, Any]:
    """Return the arguments that a call may give, by name: all but local memory."""
    return {argument.name: argument for argument in arguments if argument.kind != "Local"}


def refuse_unknown_dtypes(kernel: str, values: Mapping[str, Any]) -> None:
    """Raise TypeError if a value is the name of a dtype that numpy does not know."""
    for name, value in values.items():
        if isinstance(value, str):
            try:
                np.dtype(value)
            except TypeError:
                raise TypeError(
                    f"kernel {kernel!r}: argument {name!r} has the dtype {unknown_dtype(value)}"
                ) from None


def refuse_misfits(
    kernel: str, values: Mapping[str, Any], declared: Sequence[Any], is_source: bool
) -> None:
    """Raise TypeError if the kernel does not take an argument, or if an array has the wrong dtype."""
    arguments = given_in_calls(declared)
    for name, value in values.items():
        if name not in arguments:
            if is_source and name in _SIZES:
                continue
            raise TypeError(f"{_unknown(kernel, name, arguments)}; it takes {', '.join(arguments)}")
        if arguments[name].kind in ARRAYS:
            dtype = (
                np.dtype(value)
                if isinstance(value, (str, type, np.dtype))
                else getattr(value, "dtype", None)
            )
            wanted = _dtype(arguments[name].dtype)
            if isinstance(dtype, np.dtype) and wanted not in (None, dtype):
                raise TypeError(
                    f"kernel {kernel!r}: argument {name!r} is an array of dtype {wanted}, not {dtype}"
                )


def add_note(error: Exception, kernel: str, recipe: Any) -> None:
    """Add a note with the kernel and its recipe's line to an error of the recipe or of loopy; not on Python 3.10."""
    add = getattr(error, "add_note", None)
    if add is None or isinstance(error, KclError) or recipe is None:
        return
    code = inspect.unwrap(recipe).__code__
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code is code]
    note = f"in the recipe of kernel {kernel}: {code.co_filename}, line {lines[-1] if lines else code.co_firstlineno}"
    if note not in getattr(error, "__notes__", ()):
        add(note)


def reword(error: Exception, words: str) -> Exception | None:
    """Return an error of the same class with another message, so that the user's `except` still catches it.

    If the class cannot be made from a message alone, its nearest base class that can is used; None if there is none.
    """
    content: Any = words
    if isinstance(error, cl.Error):
        content = cl._cl._ErrorRecord(msg=words, code=error.code, routine=error.routine)
    for kind in type(error).__mro__:
        if kind is Exception:
            break
        try:
            reworded: Exception = kind(content)
            return reworded
        except TypeError:
            continue
    return None


def place(recipe: Any) -> str:
    """Return the file and line of a recipe, in brackets; empty without a recipe."""
    code = getattr(inspect.unwrap(recipe), "__code__", None) if recipe is not None else None
    return (
        f" (recipe in {code.co_filename}, line {code.co_firstlineno})" if code is not None else ""
    )


def build_error(kernel: str, recipe: Any, error: Exception, text: str) -> Exception | None:
    """Return the error of a program that does not compile, with the kernel, its recipe's place and source lines added."""
    words = str(error).replace(_FAILED, "").lstrip(" -\n")
    message = f"the program of kernel {kernel!r}{place(recipe)} does not compile\n\n{with_lines(words, text)}"
    cure = "\n\n`python -m kcl doctor` has the cure" if "unknown target CPU" in words else ""
    return reword(error, message + cure)


def with_lines(log: str, text: str) -> str:
    """Add to each message of a build log the source line that it names, unless the log shows it already."""

    def shown(message: re.Match[str]) -> str:
        lines, number = _lines(message[2], text), int(message[3])
        line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        below = log[message.end() + 1 :].partition("\n")[0]
        # An unknown line is empty, which every text contains: nothing is added then.
        return message[0] if line in below else f"{message[0]}\n    {line}"

    return _MESSAGE.sub(shown, log)


def _lines(path: str, text: str) -> list[str]:
    """Return the lines of a header; those of `text` if the path is the driver's own name for the program."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().split("\n")
    except OSError:
        return text.split("\n") if os.path.splitext(path)[1] in ("", ".cl") else []


def unknown_dtype(dtype: object) -> str:
    """Write a dtype that numpy does not know, with a suggestion."""
    near = meant(dtype, np.sctypeDict) if isinstance(dtype, str) else ""
    return f"{dtype!r}, which numpy does not know{near}"


def _dtype(text: str) -> np.dtype[Any] | None:
    """Return the dtype that a text names; None for a structure, whose text numpy cannot parse."""
    try:
        return np.dtype(text)
    except (TypeError, ValueError):
        return None


def _unknown(kernel: str, name: str, names: Iterable[str]) -> str:
    return f"kernel {kernel!r} takes no argument {name!r}{meant(name, names)}"


def _cure(name: str, value: Any, dtype: str) -> str:
    if isinstance(value, cl.MemoryObjectHolder):
        return f"write {name}=pyopencl.array.Array(queue, shape, {dtype}, data=buffer)"
    if isinstance(value, (list, tuple)):
        return f"write {name}=np.array(..., {dtype}), or give a pyopencl.array.Array"
    return "give a numpy array or a pyopencl.array.Array"


def _wrong_size(name: str, value: Any) -> str:
    """Describe the fault of a launch's size or offset; empty for none. Zero work-items are allowed."""
    axes = value if isinstance(value, (tuple, list)) else (value,)
    least = 1 if name == "local_size" else 0
    if 1 <= len(axes) <= 3 and all(
        isinstance(axis, (int, np.integer)) and axis >= least for axis in axes
    ):
        return ""
    return f"{name} is a number of work-items, {least} or more, or a tuple of at most three, not {_shown(value)}"


def _is_number(error: Exception, value: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "V":
        return True
    if isinstance(value, _NO_NUMBERS) or getattr(value, "ndim", False):
        return False
    if not isinstance(error, (TypeError, OverflowError, RuntimeError)):
        # The call failed for another reason.
        return True
    try:
        dtype.type(operator.index(value) if dtype.kind in "iu" else value)
    except Exception:
        # The value and numpy may raise any error.
        return False
    return True


def _shown(value: Any) -> str:
    """Write a type with its value: "the list [1, 2]"; for other values the type alone."""
    kind = type(value).__name__
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if getattr(value, "ndim", False) and hasattr(value, "shape"):
        return f"an array of shape {value.shape}"
    if not isinstance(value, (*_NO_NUMBERS, int, float, complex, np.generic)):
        return f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"
    text = repr(value)
    return f"the {kind} {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"
