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
    "opencl",
    "def invoke(queue):\n    return queue + 1\n",
    "invoke",
    (Argument("a", "array", "<i4", True),),
    {},
    {},
    [],
)
CODE = Code(TEXT, INVOKER)


class TestDigest:
    @pytest.mark.parametrize(
        "other",
        [
            CODE._replace(text=TEXT._replace(source="")),
            CODE.with_options(("-DA=2",)),
            CODE._replace(invoker=INVOKER._replace(source="")),
            CODE._replace(invoker=INVOKER._replace(function="other")),
        ],
    )
    def test_what_a_launch_depends_on(self, other):
        """Source, options and invoker count."""
        assert other.digest != CODE.digest

    def test_name_of_the_kernel(self):
        """What the recipe is called does not."""
        assert CODE._replace(text=TEXT._replace(kernel="g")).digest == CODE.digest


def test_invoker():
    """The function of the invoker does what its source says."""
    assert made_ready(CODE).invoke(1) == 2


def test_file_name():
    """A traceback names the kernel whose invoker it passes."""
    assert "invoker of f" in file_name(CODE)
    assert made_ready(CODE).invoke.__code__.co_filename == file_name(CODE)


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
