"""The first launch of a kernel, as its entry stores it: enough to launch the kernel again without the user's program.

    launch   = [global size, local size, offset, [argument, ...]]      sizes are lists of numbers, or null
    argument = bytes of a buffer | "a value in hexadecimal" | [bytes of local memory] | null

The launch is found by running the invoker on stand-ins (`kcl.launch.recording`). `kcl rebuild` launches the kernel again,
since drivers compile at a launch. The arrays are filled with zeros then, since zero is a valid index of every array. They
lie between guards, which show that a kernel writes outside of its arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl.launch.recording import Mark, NotPlayable, record

# The bytes before and behind each array; any device may begin a part of a buffer there.
GUARD = 4096
MOST_BYTES = 4 << 30  # of the arrays of a launch
_PATTERN = np.uint8(0xA5)
Launches = Mapping[str, Any]  # by kernel


def noted(invoke: Callable[..., Any], kernels: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the launches of a call by kernel; none if the steps of the invoker cannot be recorded."""
    # An invoker may refuse the call, or do anything.
    with suppress(Exception):
        values: dict[str, Any] = {name: _on_device(value) for name, value in arguments.items()}
        buffers = {name: value for name, value in values.items() if isinstance(value, cl.Buffer)}
        recording = record(invoke, kernels, values, frozenset(buffers))
        memory = {
            **{name: buffer.size for name, buffer in buffers.items()},
            **{f"{output.name}.base_data": output.size for output in recording.made},
        }
        for name, value in values.items():
            if isinstance(value, cl_array.Array):
                memory[f"{name}.base_data"] = value.base_data.size
        launches = {}
        for step in recording.steps:
            set_values = [
                _describe(*step.arguments[at], memory) for at in range(len(step.arguments))
            ]
            sizes = [size if size is None else list(map(int, size)) for size in step.sizes]
            # The first flag says that the global size counts groups.
            if step.flags and step.flags[0]:
                sizes[0] = [count * local for count, local in zip(*sizes[:2], strict=True)]
            launches[step.kernel] = [*sizes, set_values]
        return launches
    return {}


def launch(queue: cl.CommandQueue, program: cl.Program, launches: Launches) -> str:
    """Launch kernels of a program again; return the fault of a launch, empty for none. Raises cl.Error."""
    for name, (size, local, offset, arguments) in launches.items():
        needed = sum(argument + 2 * GUARD for argument in arguments if isinstance(argument, int))
        if needed > MOST_BYTES:
            return f"{name} needs arrays of {needed} bytes, above the limit of {MOST_BYTES}"
        kernel, arrays = cl.Kernel(program, name), list[tuple[cl.Buffer, cl.Buffer]]()
        for at, argument in enumerate(arguments):
            kernel.set_arg(at, _argument(queue, argument, arrays))
        cl.enqueue_nd_range_kernel(queue, kernel, size, local, offset, allow_empty_ndrange=True)
        queue.finish()
        if any(_is_broken(queue, whole) for whole, _part in arrays):
            return f"{name} writes outside of its arrays"
    return ""


def _argument(
    queue: cl.CommandQueue, argument: Any, arrays: list[tuple[cl.Buffer, cl.Buffer]]
) -> Any:
    """Return an argument as OpenCL takes it; an array is allocated with its guards and added to `arrays`."""
    if isinstance(argument, list):
        return cl.LocalMemory(*argument)
    if isinstance(argument, str):
        return np.frombuffer(bytes.fromhex(argument), np.uint8)
    if argument is None:
        return None
    whole = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, argument + 2 * GUARD)
    cl.enqueue_fill_buffer(queue, whole, _PATTERN, 0, whole.size)
    cl.enqueue_fill_buffer(queue, whole, np.uint8(0), GUARD, argument)
    part = whole.get_sub_region(GUARD, argument)
    # A kernel keeps no memory alive: the list does.
    arrays.append((whole, part))
    return part


def _is_broken(queue: cl.CommandQueue, whole: cl.Buffer) -> bool:
    guards = np.empty((2, GUARD), np.uint8)
    for guard, place in zip(guards, (0, whole.size - GUARD), strict=True):
        cl.enqueue_copy(queue, guard, whole, src_offset=place)
    return bool((guards != _PATTERN).any())


def _on_device(value: Any) -> Any:
    """Return an array without memory, with the layout that a host array will have on the device."""
    if not isinstance(value, np.ndarray):
        return value
    data = SimpleNamespace(size=value.nbytes)
    return cl_array.Array(None, value.shape, value.dtype, data=data, strides=value.strides)


def _describe(setter: str, items: tuple[Any, ...], memory: Mapping[str, int]) -> Any:
    value = items[-1]
    if isinstance(value, Mark):
        return int(memory[value.text])
    if isinstance(value, cl.LocalMemory):
        return [int(value.size)]
    if value is None:
        return None
    if len(items) > 1:
        return struct.pack(items[0], value).hex()
    if isinstance(value, (bytes, np.generic)):
        return (value if isinstance(value, bytes) else value.tobytes()).hex()
    raise NotPlayable(f"{setter} sets a value of an unknown size")
