"""The texts of arrays, dtypes and scalars of numpy.

kcl imports this module for the first value of numpy: none exists before a module has imported numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from kcl.record.callables.classes import content
from kcl.record.plain import name_of, refuse

Encode = Callable[[Any], str]  # the text of any value


def numpy_object(encoder: Any, numpy: Any, value: Any) -> str:
    """Encode a dtype, array or scalar of numpy, which is imported; code may ask for the layout of an array."""
    encode = encoder.encode
    dtype = value if isinstance(value, numpy.dtype) else value.dtype
    encoder.structured |= bool(dtype.fields)
    if value is dtype:
        return _dtype(encode, value)
    if isinstance(value, numpy.ndarray):
        text = f"array({_dtype(encode, dtype)}, {value.shape!r}, {_content(encode, numpy, value)}{_laid(value)})"
        if type(value) is numpy.ndarray:
            return text
        getattr(value, "fill_value", None)  # a masked array makes it at the first access
        held = [f", {name_of(name)}={encode(attribute)}" for name, attribute in content(value) if name != "_sharedmask"]
        return f"{encode(type(value))} {text}{''.join(held)}"
    if isinstance(value, numpy.generic):
        if value.dtype.fields or value.dtype.hasobject:
            return f"numpy {_content(encode, numpy, numpy.asarray(value))} of {_dtype(encode, value.dtype)}"
        text = value.tobytes().hex() if value != value else repr(value.item() if value.dtype.kind in "biu" else value)
        return f"numpy.{value.dtype.str[1:] if value.dtype.kind in 'mM' else value.dtype.name}({text})"
    return refuse(value)


def _laid(array: Any) -> str:
    """Describe the layout of an array in memory if that is unusual."""
    strides = "" if array.flags.c_contiguous else f", strides {array.strides!r}"
    return strides if array.flags.writeable else f"{strides}, read-only"


def _dtype(encode: Encode, dtype: Any) -> str:
    """Encode a dtype; one with parts or metadata by the state that numpy pickles: fields, offsets, sizes, alignment."""
    if dtype.fields is None and dtype.subdtype is None and dtype.metadata is None:
        return f"dtype({dtype.str!r}, {dtype.char!r})"
    state = [tuple(one.items()) if hasattr(one, "items") else one for one in dtype.__reduce__()[2]]
    return f"dtype({encode((dtype.str, dtype.char, *state))})"


def _content(encode: Encode, numpy: Any, array: Any) -> str:
    """Digest the elements in C order; the gaps of structures hold nothing and do not count."""
    array = (
        array.view(numpy.ndarray)
        if type(array) is not numpy.ndarray and array.dtype.names is None
        else numpy.asarray(array)
    )
    if array.dtype.fields:
        return ", ".join(_content(encode, numpy, array[name]) for name in array.dtype.names)
    if array.dtype.hasobject:
        return encode(array.ravel().tolist())
    if array.dtype.char in "gG":  # the bytes of a long double have gaps with undefined content
        return encode([*map(repr, array.ravel())])
    if array.size <= 4 and array.dtype.kind in "biu":
        return repr(array.ravel().tolist())
    return hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()
