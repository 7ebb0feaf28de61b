"""Verification of results: does a stored binary compute the results of a program built from source?

Both run on copies of the arguments of a kernel's first launch, with outputs that begin as zeros, and everything that
the kernel may have written is compared: floating point within a few units in the last place, all else bit by bit.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl.base import events
from kcl.cache.lookup import disprove
from kcl.code import LaunchableCode
from kcl.errors import UnknownInput, WrongEntry
from kcl.launch import Launcher
from kcl.programs.stage import BuildRequest, BuiltProgram

_ULPS = 4
_BLOCK = 1 << 20  # elements
_SAMPLED = 4096  # elements that tell the magnitude of an array
_ROUNDINGS = 64  # of numbers of that magnitude

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Tolerance = Callable[[str, Any], tuple[float, float]]  # relative and absolute, of a name and dtype


def verified(
    ready: LaunchableCode, found: BuiltProgram, queue: cl.CommandQueue, arguments: Mapping[str, Any]
) -> BuiltProgram | None:
    """Compare the results of a stored binary; report wrong ones, and return the program that replaces it.

    Reports nothing where the arguments cannot be copied or launched, or where two runs of the kernel differ. A program
    with variables that outlive a launch is not run for this: the run would change them.
    """
    if found.build.keeps_state(ready.code.text):
        found.compared = found.compared.union(ready.code.text.kernels)
        return None
    started = time.perf_counter()
    slots = found.stored
    try:
        computed = run(found.launcher(ready), queue, arguments)
        reference = found.build.from_source(ready.code.text).launcher(ready)
        expected = run(reference, queue, arguments)
        said = difference(computed, expected)
        steady = said and not difference(expected, run(reference, queue, arguments))
    except Exception as failure:
        # The launch itself reports a fault of the arguments.
        events.logger().info(
            "kernel %r: results were not compared: %r", ready.code.text.kernel, failure
        )
        return None
    found.compared = found.compared.union(ready.code.text.kernels)
    if not steady:
        if said:
            events.logger().info(
                "kernel %r differs from itself, results tell nothing: %s",
                ready.code.text.kernel,
                said,
            )
        return None
    name = ready.code.text.kernel
    error = WrongEntry(
        f"kernel {name!r}: the stored binary computes something else than the source: {said}"
    )
    wanted = BuildRequest(ready.code.text)
    disprove(found.build, wanted, slots, error, time.perf_counter() - started)
    return found.build.rebuilt(wanted, found.build.digest(wanted.text, ready.headers), slots)


def few_ulps(_name: str, dtype: Any) -> tuple[float, float]:
    """Return the tolerance of code that computes the same operations."""
    return _ULPS * float(np.finfo(dtype).eps), 0.0


def difference(
    computed: Arrays,
    expected: Arrays,
    tolerance: Tolerance = few_ulps,
    scales: Mapping[str, Array] | None = None,
    by: str = "by the source",
) -> str:
    """Describe the first difference of two sets of arrays; empty where they agree. `by` has computed what is expected.

    Each element of floating point may differ by the relative tolerance times its magnitude, and by the absolute one. A
    tolerance of 0 means equal bits. Where `scales` has an array, the magnitude is that of its element if this is larger,
    and what cancels to nearly nothing may have the rounding errors of numbers of the usual magnitude.
    """
    for name, array in computed.items():
        scale, limits = (scales or {}).get(name), functools.partial(tolerance, name)
        if said := _difference(array, expected[name], scale, limits, by):
            return f"{name}{said}"
    return ""


def _difference(one: Array, other: Array, scale: Array | None, limits: Any, by: str) -> str:
    for field in one.dtype.names or ():
        size = None if scale is None else scale[field]
        if said := _difference(one[field], other[field], size, limits, by):
            return f".{field}{said}"
    if one.dtype.names:
        return ""
    near, places, count = _near(other, scale, limits), list[int](), 0
    sizes = other if scale is None else scale
    mine, theirs, sizes = (np.ascontiguousarray(each).reshape(-1) for each in (one, other, sizes))
    for start in range(0, mine.size, _BLOCK):  # temporary arrays stay small
        part = slice(start, start + _BLOCK)
        if mine[part].tobytes() != theirs[part].tobytes():  # a tenth of the time
            wrong = np.flatnonzero(~near(mine[part], theirs[part], sizes[part]))
            places += [start + int(wrong[0])] if wrong.size else []
            count += wrong.size
    if not places:
        return ""
    index = [int(i) for i in np.unravel_index(places[0], one.shape)]
    found, right = mine[places[0]], theirs[places[0]]
    return f"{index or ''} is {found!s}, {by} {right!s}, {count} of {one.size} elements"


def _near(
    expected: Array, scale: Array | None, limits: Any
) -> Callable[[Array, Array, Array], Array]:
    """Return the comparison of some elements with those that are expected, and with their scales."""
    if expected.dtype.kind not in "fc":
        return lambda one, other, _size: np.asarray(one == other, dtype=bool)
    relative, least = limits(expected.dtype)
    is_exact = not relative and not least
    if scale is not None and relative:
        some = np.nan_to_num(np.abs(scale.reshape(-1)[:: scale.size // _SAMPLED + 1]), posinf=0)
        least += _ROUNDINGS * float(np.finfo(expected.dtype).eps * np.median(some))

    def near(one: Array, other: Array, size: Array) -> Array:
        if is_exact:
            same = (one.view(np.uint8) == other.view(np.uint8)).reshape(len(one), -1).all(1)
        else:
            with np.errstate(all="ignore"):
                size = np.fmax(np.abs(other), np.nan_to_num(np.abs(size), posinf=0))
                same = (np.abs(one - other) <= relative * size + least) & np.isfinite(one - other)
                same |= one == other
        return np.asarray(same | (np.isnan(one) & np.isnan(other)))

    return near


def run(launcher: Launcher, queue: cl.CommandQueue, arguments: Mapping[str, Any]) -> Arrays:
    """Launch on copies; return all outputs that may have been written, by name."""
    buffers: dict[int, cl.Buffer] = {}
    copies = {name: _copied(queue, value, buffers) for name, value in arguments.items()}
    _event, outputs = launcher(queue, _zeros(queue), None, None, copies)
    queue.finish()
    named = (
        outputs
        if isinstance(outputs, dict)
        else {f"output {i}": array for i, array in enumerate(outputs)}
    )
    arrays = {**{name: value for name, value in copies.items() if hasattr(value, "shape")}, **named}
    return {
        name: value.get(queue) if isinstance(value, cl_array.Array) else np.array(value)
        for name, value in arrays.items()
    }


def _copied(queue: cl.CommandQueue, value: Any, buffers: dict[int, cl.Buffer]) -> Any:
    """Copy an array with its strides and offset; arrays that share a buffer share its copy.

    Raises UnknownInput for a value that cannot be copied as it is.
    """
    if isinstance(value, np.ndarray):
        copy = np.copy(value, order="K")
        if copy.strides != value.strides:
            raise UnknownInput(f"numpy array with strides {value.strides}")
        return copy
    if isinstance(value, cl_array.Array):
        for event in value.events:
            event.wait()
        return cl_array.Array(
            queue,
            value.shape,
            value.dtype,
            data=_buffer(queue, value.base_data, buffers),
            offset=value.offset,
            strides=value.strides,
        )
    if isinstance(value, (cl.Buffer, cl.SVMPointer)):
        return _buffer(queue, value, buffers)
    if isinstance(value, cl.MemoryObjectHolder):
        raise UnknownInput(type(value).__name__)
    return value


def _buffer(queue: cl.CommandQueue, source: Any, buffers: dict[int, cl.Buffer]) -> cl.Buffer:
    """Copy memory once, SVM by way of the host."""
    is_svm = isinstance(source, cl.SVMPointer)
    if not isinstance(source, (cl.MemoryObjectHolder, cl.SVMPointer)) or source.size is None:
        raise UnknownInput(type(source).__name__)
    place = source.svm_ptr if is_svm else source.int_ptr
    copy = buffers.get(place)
    if copy is None:
        copy = buffers[place] = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, source.size)
        if is_svm:
            content = np.empty(source.size, np.uint8)
            cl.enqueue_copy(queue, content, source)
            cl.enqueue_copy(queue, copy, content)
        else:
            cl.enqueue_copy(queue, copy, source, byte_count=source.size)
    return copy


def _zeros(queue: cl.CommandQueue) -> Callable[[int], cl.Buffer]:
    """Return an allocator of zeros: memory that a kernel does not write must not differ."""

    def allocate(size: int) -> cl.Buffer:
        buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)
        cl.enqueue_fill_buffer(queue, buffer, np.uint8(0), 0, size)
        return buffer

    return allocate
