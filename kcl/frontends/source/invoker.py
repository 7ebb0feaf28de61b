"""Writes the invoker of a Source: the Python function that a call runs. Imported only on a miss.

It behaves like loopy's invokers: it takes numpy and device arrays, allocates outputs that are not given, finds sizes by
shapes, and raises the same kinds of errors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kcl.code import dtype_from, layout_of
from kcl.errors import RecipeError
from kcl.frontends.source import (
    IMAGES,
    LAUNCH,
    Array,
    Image,
    Local,
    Sampler,
    Scalar,
    Source,
    dtype_of,
)

if TYPE_CHECKING:
    from kcl.frontends.source import Declaration

# The functions that every invoker has. A stored invoker does not import kcl.
_HELPERS = """
import numpy as _np
import pyopencl as _cl
import pyopencl.array as _cl_array
from operator import index as _kcl_index
from pyopencl.tools import DeferredAllocator as _DeferredAllocator

_kcl_buffers = (_cl.MemoryObjectHolder, _cl.SVMPointer)

def round_up(n, multiple):
    return -(-n // multiple) * multiple

def _kcl_tuple(size):
    return size if size is None or isinstance(size, tuple) else tuple(size) if isinstance(size, list) else (size,)

def _kcl_upload(queue, allocator, name, array, is_written, is_needed):
    if array is None and is_needed:
        raise RuntimeError("input argument %r must be supplied" % name)
    if not isinstance(array, _np.ndarray):
        return None, array
    if not array.flags.c_contiguous:
        cure = "the result to an array in C order" if is_written else "%s=np.ascontiguousarray(...)" % name
        says = "strides mismatch on argument %r (got: %s, expected: C order); write %s"
        raise ValueError(says % (name, array.strides, cure))
    if is_written and not array.flags.writeable:
        raise ValueError("argument %r is written, and the numpy array given is read-only" % name)
    return array, _cl_array.to_device(queue, array, allocator=allocator)

def _kcl_to_host(out_host, pairs):
    is_host = any(host is not None for host, _array in pairs)
    is_device = any(host is None and array is not None for host, array in pairs)
    return True if out_host is None and is_host and not is_device else out_host

# OpenCL accepts such memory, and cannot use it.
def _kcl_memory(queue, name, kind, memory, is_written):
    if memory.context != queue.context:
        raise ValueError("argument %r is %s of another context than the queue's" % (name, kind))
    if is_written and memory.flags & _cl.mem_flags.READ_ONLY:
        raise ValueError("argument %r is written, and the memory given is READ_ONLY" % name)

def _kcl_image(queue, name, image, kind, number, is_written):
    if not isinstance(image, _cl.Image):
        given = name, kind, type(image).__name__
        raise TypeError("argument %r is a pyopencl.Image of type %s, not of class %s" % given)
    if image.type != number:
        given = name, kind, _cl.mem_object_type.to_string(image.type)
        raise TypeError("argument %r is an image of type %s, not of %s" % given)
    _kcl_memory(queue, name, "an image", image, is_written)

def _kcl_sampler(name, sampler):
    if not isinstance(sampler, _cl.Sampler):
        raise TypeError("argument %r is a pyopencl.Sampler, not of class %s" % (name, type(sampler).__name__))

def _kcl_axis(name, array, axis, count, shape):
    if len(array.shape) != count:
        raise ValueError("shape mismatch on argument %r (got: %s, expected: %s)" % (name, array.shape, shape))
    return array.shape[axis]

# Sizes are computed from integers; small ones of numpy wrap around. Floats are refused, as by loopy's executor.
def _kcl_number(name, value, dtype, is_plain, is_integer):
    if value is None:
        says = "argument %r was not given, and no shape says it; it is a number of dtype %s"
        raise TypeError(says % (name, dtype))
    if is_plain and isinstance(value, (str, bytes, list, tuple)):
        raise TypeError("argument %r is a number of dtype %s, not %r" % (name, dtype, value))
    return _kcl_index(value) if is_integer else value

def _kcl_shaped(name, needed, array):
    if array is None:
        raise RuntimeError("the shape of %r follows from output %r, which must be supplied" % (name, needed))
    if isinstance(array, _kcl_buffers):
        says = "argument %r is a %s, and the declaration of %r needs its shape: give a pyopencl.array.Array, or "
        raise TypeError((says + "declare the size as a scalar") % (needed, type(array).__name__, name))

def _kcl_array(queue, name, array, shape, dtype, is_written):
    if isinstance(array, _kcl_buffers):
        array = _kcl_of_buffer(queue, name, array, shape, dtype, is_written)
    says = "%s mismatch on argument %r (got: %s, expected: %s)"
    if array.dtype != dtype:
        raise TypeError(says % ("dtype", name, array.dtype, dtype))
    if array.shape != shape:
        raise ValueError(says % ("shape", name, array.shape, shape))
    if not array.flags.c_contiguous:
        raise ValueError(says % ("strides", name, array.strides, "C order"))
    if array.offset:
        raise ValueError("Argument %r does not allow arrays with offsets; pass a copy" % name)
    return array

# An array over SVM has no queue, since SVM may be bound to another.
def _kcl_of_buffer(queue, name, buffer, shape, dtype, is_written):
    if isinstance(buffer, _cl.Image):
        raise TypeError("argument %r is an array of dtype %s, not an Image" % (name, dtype))
    is_svm = isinstance(buffer, _cl.SVMPointer)
    if not is_svm:
        _kcl_memory(queue, name, "a buffer", buffer, is_written)
    size = int(_np.prod(shape)) * dtype.itemsize
    if buffer.size is not None and buffer.size < size:
        says = "argument %r is a buffer of %d bytes, but its shape %s takes %d"
        raise ValueError(says % (name, buffer.size, shape, size))
    return _cl_array.Array(queue.context if is_svm else queue, shape, dtype, data=buffer)

# numpy makes a structure of nearly every value: of one number, of other fields in order, of 2.7 for an integer.
def _kcl_whole(value, dtype):
    if dtype.names:
        for part, name in zip(value, dtype.names):
            _kcl_whole(part, dtype[name])
    elif dtype.kind in "iu":
        _kcl_index(value)

def _kcl_structure(name, value, dtype):
    reason = ""
    if isinstance(value, tuple):
        try:
            _kcl_whole(value, dtype)
            return _np.array(value, dtype)[()]
        except (TypeError, ValueError, OverflowError) as error:
            reason = " (%s)" % error
    elif isinstance(value, (_np.void, _np.ndarray)) and value.dtype == dtype and value.size == 1:
        return value.reshape(())[()]
    says = "argument %r is one structure: a tuple of %d values (%s) or one element of dtype %s, not the %s %.80r%s"
    given = (type(value).__name__, value, reason)
    raise TypeError(says % (name, len(dtype.names), ", ".join(dtype.names), dtype, *given)) from None

# Some drivers accept local memory of no bytes, and the kernel then writes beside it.
def _kcl_local(name, text, size, itemsize):
    if isinstance(size, tuple) or size < 1:
        says = "argument %r is local memory of %s = %r elements; write a size that is a number, 1 or more"
        raise ValueError(says % (name, text, size))
    return _cl.LocalMemory(int(size) * itemsize)

# PoCL launches nothing for a group without work-items, and reports nothing.
def _kcl_group(size):
    size = _kcl_tuple(size)
    if size is not None and 0 in size:
        raise ValueError("local_size is %s, and each axis of a group has 1 work-item or more" % (size,))
    return size

# The kernels that kcl hands over carry kcl's error with them.
def _kcl_recount(kernels, kernel, entry, count):
    if kernel.num_args != count:
        says = "kcl.Source %r declares %d argument(s), but the kernel has %d; list an Array, Scalar, Local, Image or "
        says += "Sampler for each of its parameters, in their order"
        raise getattr(kernels, "_kcl_error", TypeError)(says % (entry, count, kernel.num_args)) from None
"""


def write(source: Source) -> str:
    """Return the source of a module with the function `invoke`, which a call runs."""
    arrays = [argument for argument in source.arguments if isinstance(argument, Array)]
    names = [
        *(argument.name for argument in source.arguments if not isinstance(argument, Local)),
        *LAUNCH,
    ]
    typed = [
        argument for argument in source.arguments if isinstance(argument, (Array, Scalar, Local))
    ]
    dtypes = [f"_kcl_dtype_{argument.name} = {_dtype_expression(argument)}" for argument in typed]
    head = [
        "_kcl_kernels",
        "queue",
        *(f"{name}=None" for name in ("allocator", "wait_for", "out_host", *names)),
    ]
    body = [
        "if allocator is None:",
        "    allocator = _DeferredAllocator(queue.context)",
        *(line for array in arrays for line in _upload(array)),
        f"out_host = _kcl_to_host(out_host, ({''.join(f'(_kcl_host_{a.name}, {a.name}), ' for a in arrays)}))",
        *(line for argument in source.arguments for line in _checks(argument, arrays)),
        *(line for array in arrays for line in _allocation(array, arrays)),
        *_sizes(source),
        *_launch(source, arrays),
    ]
    return "\n".join(
        [
            _HELPERS,
            *dtypes,
            f"def invoke({', '.join(head)}):",
            *(f"    {line}" for line in body),
            "",
        ]
    )


def _dtype_expression(argument: Array | Scalar | Local) -> str:
    dtype = dtype_of(argument)
    layout = layout_of(dtype)
    if dtype_from(layout) != dtype:
        raise RecipeError(
            f"argument {argument.name!r}: the dtype {dtype} cannot be passed to a kernel"
        )
    return _constructor(layout)


def _constructor(layout: Any) -> str:
    """Return the expression for a numpy dtype with this layout (see `kcl.code.layout_of`)."""
    if isinstance(layout, str):
        return f"_np.dtype({layout!r})"
    if "base" in layout:
        return f"_np.dtype(({_constructor(layout['base'])}, {tuple(layout['shape'])!r}))"
    fields = [
        f"{name!r}: {layout[name]!r}"
        for name in ("names", "titles", "offsets", "itemsize")
        if name in layout
    ]
    formats = ", ".join(_constructor(part) for part in layout["formats"])
    return (
        f"_np.dtype({{{', '.join(fields)}, 'formats': [{formats}]}}, align={layout['aligned']!r})"
    )


def _upload(array: Array) -> Iterator[str]:
    """Yield the lines that copy a numpy array to the device; `_kcl_host_<name>` is the numpy array, else None."""
    name, is_written, is_needed = array.name, array.direction != "in", array.direction != "out"
    yield f"_kcl_host_{name}, {name} = _kcl_upload(queue, allocator, {name!r}, {name}, {is_written}, {is_needed})"


def _checks(argument: Declaration, arrays: list[Array]) -> Iterator[str]:
    """Yield the lines that check an argument other than an array, and that find a scalar by an array's shape."""
    name = argument.name
    if isinstance(argument, Image):
        number, is_written = (
            f"_cl.mem_object_type.{IMAGES[argument.type]}",
            argument.direction != "in",
        )
        yield f"_kcl_image(queue, {name!r}, {name}, {argument.type!r}, {number}, {is_written})"
    elif isinstance(argument, Sampler):
        yield f"_kcl_sampler({name!r}, {name})"
    elif isinstance(argument, Scalar):
        for array in arrays:
            shape = ast.parse(str(array.shape), mode="eval").body
            axes = shape.elts if isinstance(shape, ast.Tuple) else [shape]
            for axis, size in enumerate(axes):
                if isinstance(size, ast.Name) and size.id == name:
                    other, axis_of_shape = array.name, f"{axis}, {len(axes)}, {str(array.shape)!r}"
                    yield f"if {name} is None and {other} is not None and not isinstance({other}, _kcl_buffers):"
                    yield f"    {name} = _kcl_axis({other!r}, {other}, {axis_of_shape})"
        dtype = dtype_of(argument)
        yield f"{name} = _kcl_number({name!r}, {name}, {str(dtype)!r}, {not dtype.names}, {dtype.kind in 'iu'})"


def _allocation(array: Array, arrays: list[Array]) -> Iterator[str]:
    """Yield the lines that allocate an output if it is not given, and check an array that is."""
    name, dtype, shape = array.name, f"_kcl_dtype_{array.name}", str(array.shape)
    mentioned = {
        node.id for node in ast.walk(ast.parse(shape, mode="eval")) if isinstance(node, ast.Name)
    }
    # Earlier arguments are arrays by now; later ones may still be buffers, which have no shape.
    for other in [later.name for later in arrays[arrays.index(array) :] if later.name in mentioned]:
        yield f"_kcl_shaped({name!r}, {other!r}, {other})"
    yield f"_kcl_shape = _kcl_tuple({shape})"
    if array.direction == "out":
        yield f"if {name} is None:"
        yield f"    {name} = _cl_array.Array(queue, _kcl_shape, {dtype}, allocator=allocator)"
    yield f"{name} = _kcl_array(queue, {name!r}, {name}, _kcl_shape, {dtype}, {array.direction != 'in'})"


def _sizes(source: Source) -> Iterator[str]:
    """Yield the lines that find the sizes of the launch: those of the call, else the declared ones."""
    follow = [
        argument.name
        for argument in source.arguments
        if isinstance(argument, Local) and "local_size" in str(argument.size)
    ]
    yield "if global_size is None:"
    says = "global_size is not declared: give it in the call, global_size=(...)"
    yield (
        f"    raise TypeError({says!r})"
        if source.global_size is None
        else f"    global_size = {source.global_size}"
    )
    if source.local_size is not None or follow:
        yield "if local_size is None:"
        says = (
            f"the size of {follow[0]!r} follows from local_size: give it, local_size=(...)"
            if follow
            else ""
        )
        yield (
            f"    raise TypeError({says!r})"
            if source.local_size is None
            else f"    local_size = {source.local_size}"
        )
    yield "global_size, global_offset = _kcl_tuple(global_size), _kcl_tuple(global_offset)"
    yield "local_size = _kcl_group(local_size)"


def _launch(source: Source, arrays: list[Array]) -> Iterator[str]:
    yield "wait_for = [] if wait_for is None else list(wait_for)"
    for array in arrays:
        yield f"wait_for.extend({array.name}.events)"
    passed = [_passed(argument) for argument in source.arguments]
    yield f"_kcl_knl = _kcl_kernels.{source.entry}"
    yield "try:"
    yield f"    _kcl_knl.set_args({', '.join(passed)})"
    yield "except TypeError:"
    yield f"    _kcl_recount(_kcl_kernels, _kcl_knl, {source.entry!r}, {len(passed)})"
    yield "    raise"
    sizes = "global_size, local_size, global_offset"
    yield f"_kcl_event = _cl.enqueue_nd_range_kernel(queue, _kcl_knl, {sizes}, wait_for, False, True)"
    outputs = [
        argument
        for argument in source.arguments
        if isinstance(argument, (Array, Image)) and argument.direction != "in"
    ]
    changed = [output.name for output in outputs if isinstance(output, Array)]
    for name in changed:
        yield f"{name}.add_event(_kcl_event)"
    for name in changed:
        yield f"if out_host or _kcl_host_{name} is not None:"
        yield f"    {name} = {name}.get(queue=queue, ary=_kcl_host_{name})"
    yield f"return _kcl_event, ({''.join(f'{output.name}, ' for output in outputs)})"


def _passed(argument: Declaration) -> str:
    """Return the expression for the value that is set as the kernel's argument."""
    name, dtype = argument.name, f"_kcl_dtype_{argument.name}"
    if isinstance(argument, Array):
        return f"{name}.base_data"
    if isinstance(argument, Local):
        return f"_kcl_local({name!r}, {str(argument.size)!r}, {argument.size}, {dtype}.itemsize)"
    if isinstance(argument, Scalar):
        is_structure = dtype_of(argument).names
        return (
            f"_kcl_structure({name!r}, {name}, {dtype})"
            if is_structure
            else f"{dtype}.type({name})"
        )
    return name
