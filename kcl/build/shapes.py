"""The shapes of a launch: the record of the arguments of a kernel's first launch, and arguments made from it.

An entry of the binary layer keeps them so that the program can be launched again without its driver. Of an array dtype,
shape, strides and offset are kept, of a scalar its value, of a buffer or SVM its size; never the content of an array.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl.base.dtypes import dtype_from, layout_of

_LONGEST = 1 << 30  # bytes of an array that is made again
_PYTHON = (bool, int, float, complex)

Described = dict[str, dict[str, Any]]


class UnknownArgument(Exception):
    """An argument that cannot be described, or not be made again; the text names it."""


def described(arguments: Mapping[str, Any] | None) -> Described | None:
    """Describe arguments, by name; None where one is neither array, scalar, size nor buffer, or none are known."""
    if arguments is None:
        return None
    try:
        return {name: _described(name, value) for name, value in arguments.items() if value is not None}
    except UnknownArgument:
        return None


def made(queue: cl.CommandQueue, arguments: Described) -> dict[str, Any]:
    """Make arguments of the recorded shapes: integers and gaps are zero, all else small numbers.

    The numbers are the same every time. Integers in arrays are zero since they may be indices; scalars have their
    recorded values. Raises UnknownArgument for an argument above a gigabyte, or one that another kcl described.
    """
    try:
        return {name: _made(queue, name, about) for name, about in arguments.items()}
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        raise UnknownArgument(f"its recorded launch cannot be made again: {error!r}") from error


def _described(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, np.generic):
        return {"scalar": layout_of(value.dtype), "hex": value.tobytes().hex()}
    if isinstance(value, _PYTHON):
        return {"python": repr(value)}
    if isinstance(value, (np.ndarray, cl_array.Array)):
        if value.dtype.hasobject:
            raise UnknownArgument(f"argument {name} holds objects")
        shape, strides = ([int(number) for number in numbers] for numbers in (value.shape, value.strides))
        about = {"array": layout_of(value.dtype), "shape": shape, "strides": strides}
        offset = getattr(value, "offset", 0)
        return {**about, "offset": int(offset)} if offset else about
    if isinstance(value, tuple) and all(isinstance(number, (int, np.integer)) for number in value):
        return {"python": repr(tuple(int(number) for number in value))}  # the size of a launch
    if isinstance(value, (cl.Buffer, cl.SVMPointer)) and value.size is not None:
        return {"bytes": int(value.size)}
    raise UnknownArgument(f"argument {name} is a {type(value).__name__}")


def _made(queue: cl.CommandQueue, name: str, about: dict[str, Any]) -> Any:
    if "python" in about:
        return ast.literal_eval(about["python"])
    if "scalar" in about:
        return np.frombuffer(bytes.fromhex(about["hex"]), dtype_from(about["scalar"]))[0]
    if "bytes" in about:
        return _buffer(queue, np.zeros(_fits(name, about["bytes"]), np.uint8))
    dtype, shape, strides = dtype_from(about["array"]), tuple(about["shape"]), tuple(about["strides"])
    offset = int(about.get("offset", 0))
    if min(strides, default=0) < 0:
        raise UnknownArgument(f"argument {name} has negative strides")
    size = sum((count - 1) * stride for count, stride in zip(shape, strides, strict=True)) + dtype.itemsize
    if 0 in shape:
        return cl_array.zeros(queue, shape, dtype)
    size = -(-_fits(name, offset + size) // dtype.itemsize)
    data = _buffer(queue, _numbers(name, dtype, size))
    return cl_array.Array(queue, shape, dtype, data=data, offset=offset, strides=strides)


def _fits(name: str, size: int) -> int:
    if not 0 < size <= _LONGEST:
        raise UnknownArgument(f"argument {name} has {size} bytes")
    return size


def _buffer(queue: cl.CommandQueue, content: np.ndarray[Any, Any]) -> cl.Buffer:
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(queue.context, flags, hostbuf=content)


def _numbers(name: str, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    """Return numbers between 0.5 and 1.5, other ones for each name; zeros for integers."""
    made = np.zeros(count, dtype)
    drawn = np.random.default_rng(zlib.crc32(name.encode("utf-8", "surrogatepass")))
    _fill(made, drawn)
    return made


def _fill(array: np.ndarray[Any, Any], drawn: np.random.Generator) -> None:
    if array.dtype.names:
        for field in array.dtype.names:
            _fill(array[field], drawn)
    elif array.dtype.kind in "fc":
        array[...] = drawn.random(array.shape) + 0.5
