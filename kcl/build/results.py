"""Verification of results: does a stored binary compute the results of a program built from source?

Both run on copies of the arguments of a kernel's first launch, with outputs that begin as zeros, and everything that
the kernel may have written is compared: floating point within a few units in the last place, all else bit by bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl.base import events
from kcl.build.stage import BuildRequest, BuiltProgram
from kcl.cache.lookup import disprove
from kcl.code import LaunchableCode
from kcl.errors import UnknownInput, WrongEntry
from kcl.launch import Launcher

_ULPS = 4

Arrays = dict[str, np.ndarray[Any, Any]]
Tolerance = Callable[[Any], float]  # of a dtype


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
    disprove(
        found.build, BuildRequest(ready.code.text), slots, error, time.perf_counter() - started
    )
    return found.build.rebuilt(
        ready.code.text, found.build.digest(ready.code.text, ready.headers), slots
    )


def difference(computed: Arrays, expected: Arrays, tolerance: Tolerance | None = None) -> str:
    """Describe the first difference of two sets of arrays; empty where they agree.

    Floating point may differ by a few units in the last place; with a `tolerance`, a function of the dtype, by that
    times the largest magnitude that is expected in the array, and with 0 by no bit.
    """
    for name, array in computed.items():
        said = _difference(array, expected[name], tolerance)
        if said:
            return f"{name}{said}"
    return ""


def _difference(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], tolerance: Tolerance | None
) -> str:
    if one.dtype.names:
        found = (
            (field, _difference(one[field], other[field], tolerance)) for field in one.dtype.names
        )
        return next((f".{field}{said}" for field, said in found if said), "")
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    if one.dtype == other.dtype and one.tobytes() == other.tobytes():  # a tenth of the time
        return ""
    same = _same(one, other, tolerance)
    if same.all():
        return ""
    index = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{list(index)}: {one[index]} -> {other[index]}, {int((~same).sum())} of {same.size} elements"


def _same(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], tolerance: Tolerance | None
) -> np.ndarray[Any, Any]:
    if one.dtype.kind == "c":
        return np.asarray(
            _same(one.real, other.real, tolerance) & _same(one.imag, other.imag, tolerance)
        )
    if one.dtype.kind != "f":
        return np.asarray(one == other, dtype=bool)
    with np.errstate(all="ignore"):
        limit = _ULPS * np.spacing(np.maximum(np.abs(one), np.abs(other)))
        if tolerance is not None:
            limit = tolerance(one.dtype) * np.max(
                np.abs(other), where=np.isfinite(other), initial=0
            )
        near = np.abs(one - other) <= limit
    is_equal = (one == other) | near | (np.isnan(one) & np.isnan(other))
    if tolerance is not None and not tolerance(one.dtype):
        is_equal &= np.signbit(one) == np.signbit(other)
    return np.asarray(is_equal)


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
