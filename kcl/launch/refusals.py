"""The reasons of refused calls, in the user's terms: the argument at fault, the given value, and the accepted ones.

This module is imported when a call has failed. The front ends and OpenCL report the same fault in their own terms, and
some faults not at all.
"""

from __future__ import annotations

import difflib
import inspect
import math
import operator
import os
import re
import traceback
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyopencl as cl

from kcl.errors import KclError, meant
from kcl.launch import ARRAYS

_SCALARS = frozenset({"Scalar", "ValueArg"})
_SIZES = ("global_size", "local_size", "global_offset")  # a call of a Source may give these beside its arguments
_BESIDE = ("allocator", "wait_for", "out_host")  # every call may give these
_NO_NUMBERS = (str, bytes, list, tuple, dict, set, frozenset)
_NO_ARGUMENTS = "OSUmM"  # the kinds of dtypes that no kernel takes
_INVOKER = "<kcl invoker of "  # the beginning of the file name of an invoker
_SHOWN = 40  # characters of a value
_NUMPY_DTYPE = re.compile(r"np:dtype\('(\w+)'\)")  # as loopy writes the dtype that it expects
_SHAPES = re.compile(r"shape mismatch on argument '\w+' \(got: (\(.*?\)), expected: (\(.*?\))\)$")
_NUMBERED = re.compile(r"INVALID_ARG_SIZE - when processing arg#(\d+) \(1-based\)")


class ArgumentFacts(Protocol):
    """The known facts about an argument of a kernel."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """Its class in the front end: Array, Scalar, ArrayArg, ValueArg and so on."""

    @property
    def dtype(self) -> str:
        """Its dtype, as numpy writes it."""


class FailedCall(NamedTuple):
    """A call that failed: its kernel, the values it gave, and the error.

    `known` lists the arguments of the kernel; the list is empty while its code is unknown. `packed` arguments are taken
    apart by their index, so these may be lists. A `sized` kernel takes the sizes of the launch. `undeclared` parameters
    stand in the text of the program and not in `known`.
    """

    kernel: str
    given: Mapping[str, Any]
    error: Exception
    known: Sequence[ArgumentFacts] = ()
    packed: Container[str] = ()
    sized: bool = False
    queue: Any = None
    allocator: Any = None
    wait_for: Any = None
    undeclared: Container[str] = ()


def at_fault(call: FailedCall) -> str:
    """Describe the first argument at fault in a call; empty where no argument is at fault."""
    arguments = given_in_calls(call.known)
    for name, value in call.given.items():
        if name in call.packed or value is None:
            continue
        if name in _SIZES and name not in arguments and (call.sized or arguments):
            said = _wrong_size(name, value) if call.sized else ""
            if said or not call.sized:
                return f"kernel {call.kernel!r}: {said or f'loopy finds the sizes of its kernels; leave {name} out'}"
            continue
        if arguments and name not in arguments:
            beside = (*_SIZES, *_BESIDE) if call.sized else _BESIDE
            if name in call.undeclared:
                says = "the OpenCL C has this parameter, and no argument is declared for it; declare it in its place"
                return f"kernel {call.kernel!r} takes no argument {name!r}: {says}"
            says = f"its arguments are {', '.join(arguments)}; a call also takes {', '.join(beside)}"
            return f"{_unknown(call.kernel, name, [*arguments, *beside])}; {says}"
        argument = arguments.get(name)
        if argument is not None and not argument.dtype and argument.kind in ARRAYS | _SCALARS:
            argument = None  # of an open dtype
        said = _wrong(call, name, value, argument)
        if said:
            return f"kernel {call.kernel!r}: argument {name!r} {said}"
    said = _wrong_beside(call)
    return f"kernel {call.kernel!r}: {said}" if said else ""


def unknown_open(call: FailedCall) -> KeyError | None:
    """Return loopy's error for an unknown argument of a kernel with open dtypes: it looks up the dtype of each one."""
    known = given_in_calls(call.known)
    unknown = [name for name in call.given if known and name not in known and name not in call.packed]
    return KeyError(unknown[0]) if unknown else None


def unlike(call: FailedCall) -> str:
    """Describe the parameter whose size in the program text differs from its declaration; empty for other errors."""
    found = _NUMBERED.search(str(call.error))
    if not (call.sized and found and isinstance(call.error, cl.LogicError)):
        return ""
    argument = call.known[int(found[1]) - 1]
    declared = (
        f"{np.dtype(argument.dtype)} of {np.dtype(argument.dtype).itemsize} bytes" if argument.dtype else "memory"
    )
    says = f"argument {argument.name!r} is declared as {declared}, and the program has a parameter of another size"
    return f"kernel {call.kernel!r}: {says} in its place; declare the arguments as the OpenCL text does"


def given_in_calls(known: Iterable[ArgumentFacts]) -> dict[str, ArgumentFacts]:
    """Return the arguments that a call gives, by name: all but local memory."""
    return {argument.name: argument for argument in known if argument.kind != "Local"}


def sizes_first(unnamed: Sequence[Any]) -> list[str]:
    """Write by name the sizes that begin a call in pyopencl's style; empty for other calls."""
    sizes = [f"{name}={size!r}" for name, size in zip(_SIZES[:2], unnamed, strict=False) if isinstance(size, tuple)]
    return sizes if unnamed and isinstance(unnamed[0], tuple) else []


def near(missing: Iterable[str], given: Iterable[str]) -> str:
    """Suggest given names for the missing ones; empty where no name is near."""
    pairs = [(name, difflib.get_close_matches(name, list(given), 1)) for name in missing if name not in given]
    return "".join(f" Is {close[0]!r} meant to be {name!r}?" for name, close in pairs if close)


def refuse_asked(kernel: str, given: Mapping[str, Any]) -> None:
    """Raise TypeError for a name of a dtype that numpy does not know."""
    for name, value in given.items():
        if isinstance(value, str):
            try:
                np.dtype(value)
            except TypeError:
                raise TypeError(f"kernel {kernel!r}: argument {name!r} has the dtype {unknown_dtype(value)}") from None


def refuse_unlike(kernel: str, given: Mapping[str, Any], known: Sequence[ArgumentFacts], is_source: bool) -> None:
    """Raise TypeError for an argument that the kernel does not take, or for an array of a wrong dtype."""
    arguments = given_in_calls(known)
    for name, value in given.items():
        if name not in arguments:
            if is_source and name in _SIZES:
                continue
            names = ", ".join(arguments)
            raise TypeError(f"{_unknown(kernel, name, arguments)}; it takes {names}")
        if arguments[name].kind not in ARRAYS:
            continue
        dtype = np.dtype(value) if isinstance(value, (str, type, np.dtype)) else getattr(value, "dtype", None)
        wanted = np.dtype(arguments[name].dtype)
        if isinstance(dtype, np.dtype) and dtype != wanted:
            raise TypeError(f"kernel {kernel!r}: argument {name!r} is an array of dtype {wanted}, not {dtype}")


def named(call: FailedCall) -> Exception | None:
    """Return an error of the invoker with the name of the kernel; None for an error from elsewhere."""
    if not _is_of_invoker(call.error):
        return None
    text = _of_axes(_NUMPY_DTYPE.sub(r"\1", str(call.error)))
    misfit = _misfit(call.error) if call.sized else ""
    if misfit:
        return worded(call.error, f"kernel {call.kernel!r} with {misfit}")
    given = [f"{name}={call.given[name]!r}" for name in _SIZES if call.sized and call.given.get(name) is not None]
    where = f"kernel {call.kernel!r}" + (f" with {', '.join(given)}" if given else "")
    if isinstance(call.error, cl.Error):  # it writes routine and status before its words
        reason = text.partition(" - ")[2]
        return worded(call.error, f"{where}: {reason}" if reason else where)
    return worded(call.error, f"{where}: {text}")


def _of_axes(text: str) -> str:
    """State the number of axes of an argument where the given array has another number of axes."""
    found = _SHAPES.search(text)
    counts = [len(re.findall(r"[^,()\s]+", shape)) for shape in found.groups()] if found else []
    if not found or counts[0] == counts[1]:
        return text
    given, wanted = (f"{count} {'axis' if count == 1 else 'axes'}" for count in counts)
    return f"{text}: the argument has {wanted}, and the array {given}"


def noted(error: Exception, kernel: str, recipe: Any) -> None:
    """Note the kernel and the line of its recipe on an error of the recipe or of loopy; Python 3.10 has no notes."""
    add = getattr(error, "add_note", None)
    if add is None or isinstance(error, KclError) or recipe is None:
        return
    code = inspect.unwrap(recipe).__code__
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code is code]
    note = f"in the recipe of kernel {kernel}: {code.co_filename}, line {lines[-1] if lines else code.co_firstlineno}"
    if note not in getattr(error, "__notes__", ()):
        add(note)


def _misfit(error: Exception) -> str:
    """Write both sizes of a launch that OpenCL refused for its local size, and the reason where it is known."""
    if not isinstance(error, cl.Error) or error.code != cl.status_code.INVALID_WORK_GROUP_SIZE:
        return ""
    frames = (frame for frame, _line in traceback.walk_tb(error.__traceback__))
    invoker = next((frame for frame in frames if frame.f_code.co_filename.startswith(_INVOKER)), None)
    if invoker is None:
        return ""
    found = invoker.f_locals  # the sizes that the invoker found, in the call or in the declaration
    sizes = found["global_size"], found["local_size"]
    reason = _why_misfit(found["_kcl_knl"], found["queue"].device, *sizes)
    return f"global_size={sizes[0]!r}, local_size={sizes[1]!r}" + (f": {reason}" if reason else "")


def _why_misfit(kernel: Any, device: Any, whole: tuple[int, ...], local: tuple[int, ...] | None) -> str:
    info = cl.kernel_work_group_info
    asked = tuple(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))
    if any(asked) and asked != (*(local or ()), 1, 1)[:3]:
        return f"the OpenCL C asks for local_size={asked} (reqd_work_group_size)"
    most, axes = kernel.get_work_group_info(info.WORK_GROUP_SIZE, device), device.max_work_item_sizes
    if local is None:
        return ""
    if math.prod(local) > most:
        return f"a work-group of this kernel has at most {most} work-items on this device"
    if any(size > limit for size, limit in zip(local, axes, strict=False)):
        return f"local_size is at most {tuple(axes)} on this device"
    return next((f"{n} is no multiple of {m}" for n, m in zip(whole, local, strict=True) if m and n % m), "")


def untyped(call: FailedCall, names: Iterable[str]) -> Exception | None:
    """Return the error for code that cannot be generated because the dtype of an open argument is unknown."""
    for name in names:
        value = call.given.get(name)
        if repr(name) in str(call.error) and not hasattr(value, "dtype"):
            given = "is not given" if value is None else f"is {_shown(value)}"
            says = f"argument {name!r} {given}, and its dtype decides the code; give an array or a numpy scalar"
            return worded(call.error, f"kernel {call.kernel!r}: {says}, such as np.float32(2)")
    return None


def _is_of_invoker(error: Exception) -> bool:
    """Tell whether an invoker raised an error, or pyopencl below it; an allocator of the user raises its own errors."""
    below = False
    for frame, _line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if below and not path.startswith((_INVOKER, os.path.dirname(cl.__file__))):
            return False
        below = below or path.startswith(_INVOKER)
    return below


def worded(error: Exception, words: str) -> Exception | None:
    """Return an error of the same class with other words: a handler of the errors of loopy's executor catches it too.

    For a class that needs more than a text the nearest base class that needs only a text is used.
    """
    said: Any = words
    if isinstance(error, cl.Error):
        said = cl._cl._ErrorRecord(msg=words, code=error.code, routine=error.routine)
    for kind in type(error).__mro__:
        if kind is Exception:
            break
        try:
            found: Exception = kind(said)
            return found
        except TypeError:
            continue
    return None


def place(recipe: Any) -> str:
    """Return the file and line of a recipe, in brackets; empty without a recipe."""
    code = getattr(inspect.unwrap(recipe), "__code__", None) if recipe is not None else None
    return f" (recipe in {code.co_filename}, line {code.co_firstlineno})" if code is not None else ""


def unknown_dtype(dtype: object) -> str:
    """Write a dtype that numpy does not know, with a suggestion."""
    near = meant(dtype, np.sctypeDict) if isinstance(dtype, str) else ""
    return f"{dtype!r}, which numpy does not know{near}"


def _unknown(kernel: str, name: str, known: Iterable[str]) -> str:
    return f"kernel {kernel!r} takes no argument {name!r}{meant(name, known)}"


def _wrong(call: FailedCall, name: str, value: Any, argument: ArgumentFacts | None) -> str:
    kind = argument.kind if argument is not None else ""
    if argument is not None and kind in _SCALARS:
        dtype = np.dtype(argument.dtype)
        number = "a whole number" if dtype.kind in "iu" else "a number"
        return "" if _is_number(call.error, value, dtype) else f"is {number} of dtype {dtype}, not {_shown(value)}"
    if kind == "Array" and _is_memory(value):
        return ""  # of a Source, and a call may give the sizes
    is_array = _is_array(value)
    if argument is not None and kind in ARRAYS and not is_array:
        dtype = np.dtype(argument.dtype)
        return f"is an array of dtype {dtype}, not {_shown(value)}; {_cure(name, value, dtype)}"
    if not kind and not is_array and _is_no_value(value):
        return f"is {_shown(value)}; {_cure(name, value, None)}, or a number"
    return _wrong_array(call, name, value) if is_array else ""


def _wrong_array(call: FailedCall, name: str, value: Any) -> str:
    if value.dtype.kind in _NO_ARGUMENTS:
        return f"is an array of dtype {value.dtype}, which no kernel takes"
    if isinstance(value, np.ndarray):
        if isinstance(call.error, RuntimeError) and not value.flags.forc:
            says = f"has the strides {value.strides}: an array with gaps or in reverse cannot be copied to a device"
            return f"{says}; write {name}=np.ascontiguousarray(...)"
        if isinstance(call.error, ValueError) and "array is read-only" in str(call.error) and not value.flags.writeable:
            return "is a read-only numpy array, and the kernel writes it"
        return ""
    lies = getattr(value, "context", None)
    if call.queue is not None and lies is not None and lies != call.queue.context:
        return "lies in another context than the queue; give an array of the queue's context"
    return ""


def _wrong_size(name: str, value: Any) -> str:
    """Describe the fault of a launch's size or offset; a launch of zero work-items is allowed and does nothing."""
    axes = value if isinstance(value, (tuple, list)) else (value,)
    least = 1 if name == "local_size" else 0
    if 1 <= len(axes) <= 3 and all(isinstance(axis, (int, np.integer)) and axis >= least for axis in axes):
        return ""
    return f"{name} is a number of work-items, {least} or more, or a tuple of at most three, not {_shown(value)}"


def _wrong_beside(call: FailedCall) -> str:
    if call.allocator is not None and not callable(call.allocator):
        return f"allocator is a function from bytes to a buffer, not {_shown(call.allocator)}"
    events = call.wait_for
    if events is None or (isinstance(events, Iterable) and all(isinstance(event, cl.Event) for event in events)):
        return ""
    return f"wait_for is a list of events, not {_shown(events)}"


def _is_number(error: Exception, value: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "V":
        return True
    if isinstance(value, (*_NO_NUMBERS, type)) or getattr(value, "ndim", False):
        return False
    if isinstance(error, (TypeError, OverflowError, RuntimeError)):
        try:
            dtype.type(operator.index(value) if dtype.kind in "iu" else value)
        except Exception:  # numpy and the value may raise any error
            return False
    return True


def _is_array(value: Any) -> bool:
    of_numpy = isinstance(getattr(value, "dtype", None), np.dtype) and not isinstance(value, (type, np.generic))
    return of_numpy and (isinstance(value, np.ndarray) or hasattr(value, "base_data"))


def _is_no_value(value: Any) -> bool:
    """Tell whether a value is neither an array nor a number, for any argument."""
    of_others = hasattr(value, "dtype") and not isinstance(value, np.generic)
    return of_others or isinstance(value, (*_NO_NUMBERS, type, cl.MemoryObjectHolder)) or _is_memory(value)


def _cure(name: str, value: Any, dtype: Any) -> str:
    of = f"np.{dtype}" if dtype is not None and dtype.isbuiltin == 1 else "dtype"
    if _is_memory(value):
        return f"write {name}=pyopencl.array.Array(queue, shape, {of}, data=buffer)"
    if isinstance(value, (list, tuple)):
        return f"write {name}=np.array(..., {of}), or give a pyopencl.array.Array"
    return "give a numpy array or a pyopencl.array.Array"


def _is_memory(value: Any) -> bool:
    """Tell whether a value is memory for an array."""
    return isinstance(value, (cl.MemoryObjectHolder, cl.SVMPointer)) and not isinstance(value, cl.Image)


def _shown(value: Any) -> str:
    """Write a type with its value: "the list [1, 2]"; for other values the type alone."""
    kind = type(value).__name__
    if isinstance(value, type):
        return f"the class {kind if value is type else value.__name__}"
    if getattr(value, "ndim", False) and hasattr(value, "shape"):
        return f"an array of shape {value.shape}"
    if not isinstance(value, (*_NO_NUMBERS, int, float, complex, np.generic)):
        return f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"
    text = repr(value)
    return f"the {kind} {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"
