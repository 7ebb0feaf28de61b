"""kcl.record.callables.arrays: the texts of arrays and dtypes."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

from kcl.errors import UnknownInput
from kcl.record.callables.walker import walked


def encode(value):
    """Return the text of a value."""
    return walked(value).text


BASE = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "other",
    [
        BASE.astype(np.float64),
        BASE.reshape(4, 3),
        BASE + (BASE == 5),
        np.asfortranarray(BASE),
        BASE.view(np.matrix) if hasattr(np, "matrix") else BASE[:2],
        BASE[::-1],
        BASE.astype(">f4"),
    ],
    ids=["dtype", "shape", "element", "order", "subclass", "strides", "byte order"],
)
def test_whatever_code_can_see(other):
    """Dtype, shape, elements, class and layout of an array count."""
    assert encode(other) != encode(BASE)


def test_equal_arrays():
    """A copy has the same text; one that cannot be written has another."""
    assert encode(BASE.copy()) == encode(BASE)
    locked = BASE.copy()
    locked.flags.writeable = False
    assert encode(locked) != encode(BASE)


def test_gaps_of_a_structure():
    """Bytes between the fields of a structure do not count."""
    aligned = np.dtype([("a", np.int8), ("b", np.int32)], align=True)
    one, other = (np.frombuffer(bytes([1, gap, gap, gap, 2, 0, 0, 0]), aligned) for gap in (0, 9))
    assert encode(one) == encode(other)


def test_function_that_is_not_numpys():
    """A function that somebody made into one of numpy's kind cannot be known."""
    with pytest.raises(UnknownInput):
        encode(np.frompyfunc(abs, 1, 1))


def test_device(device, context):
    """Devices, contexts, queues and memory are refused: they are no values."""
    for value in (device, context, cl.array.zeros(cl.CommandQueue(context), 4, np.float32)):
        with pytest.raises(UnknownInput):
            encode(value)
