"""Records the steps of an invoker in a call by running it on stand-ins. Nothing is launched.

An invoker is plain Python that checks arguments, finds sizes, sets arguments and enqueues. Here it gets stand-ins: for
an array its layout, for a scalar a Mark that can only be passed on, for the device kernels and for pyopencl's functions
objects that note their calls. Any other step raises `NotPlayable`: such a call is always left to the invoker.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pyopencl.tools as cl_tools

# The setters of this pyopencl that take several arguments in one tuple, with the number of items of each argument.
WIDTH = {
    setter: width
    for setter, width in (
        ("_set_arg_multi", 2),
        ("_set_arg_buf_multi", 2),
        ("_set_arg_buf_pack_multi", 3),
    )
    if hasattr(cl.Kernel, setter)
}
_CONSTANTS = (int, float, complex, bytes, np.generic, cl.LocalMemory, type(None))


class NotPlayable(Exception):
    """The invoker takes a step that cannot be played again."""


class Mark:
    """The stand-in of a value that differs from call to call; `text` is the Python expression for it in a played call.

    A Mark can be passed on, and a complex one has `real` and `imag`. Comparing it or computing with it raises NotPlayable.
    """

    __slots__ = ("text",)

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def real(self) -> Mark:
        return Mark(f"{self.text}.real")

    @property
    def imag(self) -> Mark:
        return Mark(f"{self.text}.imag")

    def __eq__(self, _other: object) -> bool:
        raise NotPlayable("a value decides")

    def __bool__(self) -> bool:
        raise NotPlayable("a value decides")


class QueueMark(Mark):
    """The stand-in of the queue."""

    __slots__ = ()

    @property
    def context(self) -> Mark:
        return Mark("_kcl_context")


class Allocator(Mark):
    """The stand-in of the allocator."""

    __slots__ = ()

    def __call__(self, size: int) -> Allocation:
        return Allocation(size)


class Allocation(NamedTuple):
    """A buffer of `size` bytes that each call allocates."""

    size: int


class AllocatedOutput(NamedTuple):
    """An output array of `size` bytes that is allocated in each call, with the arguments of its constructor.

    `computed` are the attributes that the constructor computes from these arguments. They are empty if the constructor
    does more than that and allocating.
    """

    name: str
    positional: tuple[Any, ...]
    keywords: dict[str, Any]
    computed: dict[str, Any]
    size: int


class Step(NamedTuple):
    """One enqueue: the kernel, (setter, items) by argument index, (global size, local size, offset), further flags."""

    kernel: str
    arguments: dict[int, tuple[str, tuple[Any, ...]]]
    sizes: tuple[Any, Any, Any]
    flags: tuple[Any, ...]


def record(
    invoke: Callable[..., Any], kernels: Any, values: Mapping[str, Any], passed: frozenset[str]
) -> Recording:
    """Run `invoke` on stand-ins for `values` and return its steps. The scalars in `passed` become Marks.

    Raises NotPlayable, or the invoker's own error if it refuses the call.
    """
    recording = Recording()
    stand_ins = {
        name: _Layout(recording, name, value)
        if isinstance(value, cl_array.Array)
        else (Mark(name) if name in passed else value)
        for name, value in values.items()
    }
    event, outputs = _on_stand_ins(invoke, recording, passed)(
        _Kernels(kernels), QueueMark("_kcl_queue"), None, None, None, **stand_ins
    )
    if event is not recording.last or event is None:
        raise NotPlayable("the event of another launch is returned")
    recording.outputs = (
        {key: _name(value) for key, value in outputs.items()}
        if isinstance(outputs, dict)
        else tuple(map(_name, outputs))
    )
    return recording


class Recording:
    """The steps of one call. Values are constants or Marks; no array is kept alive.

    `waited` names the arrays with events to wait for. `written` names the arrays that get the new event. `outputs` is
    the result: a tuple of names, or a dictionary of them. `names` are the names in the expressions of Marks. `last`
    stands for the event of the last enqueue.
    """

    def __init__(self) -> None:
        self.made: list[AllocatedOutput] = []
        self.steps: list[Step] = []
        self.waited: list[str] = []
        self.written: list[str] = []
        self.outputs: tuple[str, ...] | dict[str, str] = ()
        self.names: dict[str, Any] = {}
        self.last: object = None

    def enqueue(
        self,
        queue: Any,
        kernel: Any,
        size: Any,
        local: Any,
        offset: Any = None,
        wait_for: Any = None,
        *flags: Any,
    ) -> object:
        waited = [self.last] if self.last else []
        if (
            not isinstance(queue, QueueMark)
            or not isinstance(kernel, _Kernel)
            or list(wait_for or ()) != waited
        ):
            raise NotPlayable("enqueues in another way")
        plain = all(
            isinstance(part, (int, np.integer))
            for sizes in (size, local, offset)
            for part in sizes or ()
        )
        if not plain or not all(flag in (None, False, True) for flag in flags):
            raise NotPlayable("sizes or flags are no numbers")
        if len(kernel.noted) != kernel.num_args or any(
            step.kernel == kernel.name for step in self.steps
        ):
            raise NotPlayable("sets arguments in another way")
        self.steps.append(Step(kernel.name, kernel.noted, (size, local, offset), flags))
        self.last = object()
        return self.last

    def array(self, *positional: Any, **keywords: Any) -> _Layout:
        """Stand in for `pyopencl.array.Array`."""
        queue, shape, dtype = positional
        data, memory = keywords.get("data"), object()
        bytes_given = data.size if isinstance(data, Allocation) else None
        strides, items = (keywords.get(name) for name in ("strides", "_size"))
        numbers = (*shape, *(strides or ()), items or 0, bytes_given or 0)
        if not {*keywords} <= _ARRAY_KEYWORDS or not all(
            isinstance(number, (int, np.integer)) for number in numbers
        ):
            raise NotPlayable("allocates in another way")
        layout = {name: keywords[name] for name in _LAYOUT_KEYWORDS if name in keywords}
        array = cl_array.Array(None, shape, dtype, data=memory, **layout)
        attributes = {**vars(array)}
        size = array.nbytes if bytes_given is None else bytes_given
        # Making the output from its attributes, without the constructor, saves 8 % of a call that allocates it.
        is_plain = (
            attributes.keys() == _GIVEN | _COMPUTED
            and (array.base_data, array.events) == (memory, [])
            and isinstance(keywords.get("_queue", queue), QueueMark)
            and isinstance(keywords.get("allocator"), Allocator)
            and size > 0
        )
        computed = {name: attributes[name] for name in sorted(_COMPUTED)} if is_plain else {}
        name = f"_kcl_made{len(self.made)}"
        self.made.append(AllocatedOutput(name, positional, keywords, computed, size))
        return _Layout(self, name, array)

    def pack(self, form: str, *values: Any) -> Any:
        """Stand in for `struct.pack`."""
        if not any(isinstance(value, Mark) for value in values):
            return struct.pack(form, *values)
        self.names["_kcl_pack"] = struct.pack
        texts = [value.text if isinstance(value, Mark) else repr(value) for value in values]
        return Mark(f"_kcl_pack({form!r}, {', '.join(texts)})")


# The keywords of pyopencl's arrays that decide their layout, and all with which invokers allocate.
_LAYOUT_KEYWORDS = ("strides", "_fast", "_size")
_ARRAY_KEYWORDS = {*_LAYOUT_KEYWORDS, "data", "allocator", "_context", "_queue"}
# The attributes of an array in the known releases of pyopencl: those that are passed in, and those that are computed.
_GIVEN = {"queue", "context", "events", "allocator", "base_data"}
_COMPUTED = {"shape", "dtype", "strides", "nbytes", "size", "offset", "_flags"}


class _Layout:
    """The stand-in of an array: its layout, without its memory."""

    def __init__(self, recording: Recording, name: str, array: cl_array.Array) -> None:
        self._recording = recording
        self.name = name
        self.shape = array.shape
        self.strides = array.strides
        self.offset = array.offset
        self.dtype = array.dtype
        # The only flag that invokers read.
        self.flags = SimpleNamespace(c_contiguous=array.flags.c_contiguous)
        self.base_data = Mark(f"{name}.base_data")

    @property
    def events(self) -> list[Any]:
        self._recording.waited.append(self.name)
        return []

    def add_event(self, event: Any) -> None:
        if event is not self._recording.last:
            raise NotPlayable("adds another event")
        self._recording.written.append(self.name)


class _Kernels:
    """The stand-in of a program's device kernels."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> _Kernel:
        return _Kernel(name, getattr(self._real, name).num_args)


class _Kernel:
    """The stand-in of a device kernel: notes its arguments."""

    def __init__(self, name: str, num_args: int) -> None:
        self.name = name
        self.num_args = num_args
        self.noted: dict[int, tuple[str, tuple[Any, ...]]] = {}

    def __getattr__(self, setter: str) -> Callable[[tuple[Any, ...]], None]:
        width = WIDTH.get(setter)
        if width is None:
            raise NotPlayable(f"calls {setter} of a kernel")

        def note_all(items: tuple[Any, ...]) -> None:
            for start in range(0, len(items), width):
                self._note(items[start], setter, tuple(items[start + 1 : start + width]))

        return note_all

    def set_args(self, *values: Any) -> None:
        if len(values) != self.num_args:
            raise TypeError("wrong number of arguments")
        for index, value in enumerate(values):
            self._note(index, "_set_arg_multi", (value,))

    def _note(self, index: int, setter: str, items: tuple[Any, ...]) -> None:
        if setter not in WIDTH or not all(isinstance(item, (Mark, *_CONSTANTS)) for item in items):
            raise NotPlayable("sets an argument of another kind")
        self.noted[index] = (setter, items)


class _Module:
    """The stand-in of a module: reading any other name raises NotPlayable."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        raise NotPlayable(f"uses {name}")


def _dtype(recording: Recording, name: str, dtype: Any) -> Any:
    """Return a fake dtype whose `.type(value)` records the conversion of a scalar."""

    def convert(value: Any) -> Any:
        if not isinstance(value, Mark):
            return dtype.type(value)
        recording.names[f"_kcl_type_{name}"] = dtype.type
        return Mark(f"_kcl_type_{name}({value.text})")

    return SimpleNamespace(type=convert)


def _on_stand_ins(
    invoke: Callable[..., Any], recording: Recording, passed: frozenset[str]
) -> Callable[..., Any]:
    """Return a copy of the invoker that uses stand-ins of pyopencl's functions."""

    def allocator(_context: Any) -> Allocator:
        return Allocator("_kcl_allocator")

    def index(value: Any) -> Any:
        return (
            Mark(f"_kcl_index({value.text})") if isinstance(value, Mark) else operator.index(value)
        )

    # By identity, since an invoker may have a function under any name.
    stand_ins: dict[int, Any] = {
        id(cl): _Module(enqueue_nd_range_kernel=recording.enqueue, LocalMemory=cl.LocalMemory),
        id(cl_array): _Module(Array=recording.array),
        id(cl_tools): _Module(DeferredAllocator=allocator),
        id(cl_tools.DeferredAllocator): allocator,
        id(struct.pack): recording.pack,
    }
    own = invoke.__globals__
    namespace = {name: stand_ins.get(id(value), value) for name, value in own.items()}
    namespace["_kcl_index"] = index
    for name in passed:
        dtype = own.get(f"_kcl_dtype_{name}")
        if dtype is not None and not dtype.names:
            namespace[f"_kcl_dtype_{name}"] = _dtype(recording, name, dtype)
    for name, value in own.items():
        # The invoker's own helpers must see the stand-ins, too.
        if isinstance(value, FunctionType) and value.__globals__ is own:
            namespace[name] = FunctionType(
                value.__code__, namespace, name, value.__defaults__, value.__closure__
            )
    return namespace[invoke.__name__]  # type: ignore[no-any-return]


def _name(value: Any) -> str:
    if not isinstance(value, _Layout):
        raise NotPlayable("returns something else than arrays")
    return value.name
