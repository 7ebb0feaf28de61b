"""kcl.code: program text and invoker."""

import json

import numpy as np
import pytest
from pyopencl import cltypes

from kcl.code import (
    Argument,
    Code,
    Invoker,
    ProgramText,
    dtype_from,
    dtype_text,
    file_name,
    layout_of,
    made_ready,
)

TEXT = ProgramText("f", "kernel void f(global int *a) {}", ("-DA=1",), ("f",))
INVOKER = Invoker(
    *("opencl", "def invoke(queue):\n    return queue + 1\n", "invoke"),
    *((Argument("a", "array", "<i4", True),), {}, {}, []),
)
CODE = Code(TEXT, INVOKER)


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (CODE._replace(text=TEXT._replace(source="")), True),
        (CODE.with_options(("-DA=2",)), True),
        (CODE._replace(invoker=INVOKER._replace(source="")), True),
        (CODE._replace(invoker=INVOKER._replace(function="other")), True),
        (CODE._replace(text=TEXT._replace(kernel="g")), False),
    ],
)
def test_digest(other, counts):
    """Source, options and invoker count, as a launch depends on them; what the recipe is called does not."""
    assert (other.digest != CODE.digest) is counts


def test_invoker():
    """The function of the invoker does what its source says; a traceback that passes it names the kernel."""
    invoke = made_ready(CODE).invoke
    assert invoke(1) == 2
    assert "invoker of f" in file_name(CODE) == invoke.__code__.co_filename


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
def test_a_dtype_that_is_made_of_the_json_of_another_one_is_the_same(dtype):
    made = dtype_from(json.loads(json.dumps(layout_of(dtype))))
    assert made == dtype
    assert made.isalignedstruct == dtype.isalignedstruct


def test_texts():
    """Each dtype has a text of its own; that of a plain one is numpy's."""
    assert len(set(map(dtype_text, DTYPES))) == len(DTYPES)
    assert dtype_text(np.dtype(np.float32)) == "<f4"
