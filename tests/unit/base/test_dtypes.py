"""kcl.base.dtypes: the texts of numpy dtypes, and dtypes made of them."""

import json

import numpy as np
import pytest
from pyopencl import cltypes

from kcl.base.dtypes import dtype_from, dtype_text, layout_of

DTYPES = [
    np.dtype(np.float32),
    np.dtype(">i8"),
    np.dtype((np.float32, (3, 2))),
    np.dtype([("a", np.int8), ("b", np.float64)], align=True),
    np.dtype([("a", np.int8), ("b", np.float64)]),
    np.dtype([("inner", [("x", np.int16)]), ("more", np.int8, (4,))]),
    np.dtype({"names": ["a"], "formats": ["<i4"], "offsets": [8], "itemsize": 16}),
    cltypes.float3,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype):
    """A dtype that is made of the JSON of another one is the same."""
    made = dtype_from(json.loads(json.dumps(layout_of(dtype))))
    assert made == dtype
    assert made.isalignedstruct == dtype.isalignedstruct


def test_texts_differ():
    """Each dtype has a text of its own."""
    assert len({dtype_text(dtype) for dtype in DTYPES}) == len(DTYPES)


def test_plain_text():
    """The text of a plain dtype is numpy's."""
    assert dtype_text(np.dtype(np.float32)) == "<f4"
