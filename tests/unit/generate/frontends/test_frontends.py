"""kcl.generate.frontends: a recipe's result goes to the front end that knows it."""

from __future__ import annotations

import numpy as np
import pytest
from loopys_own import loopy as lp

import kcl
import kcl.loopy as face
from kcl.errors import RecipeError
from kcl.generate.frontends import accept
from kcl.generate.frontends.loopy import LoopyResult
from kcl.generate.frontends.opencl import SourceResult


def test_loopy():
    """A unit of loopy goes to loopy's front end."""
    unit = lp.make_kernel("{[i]: 0<=i<4}", "a[i] = 1", lang_version=(2018, 2))
    result = accept(unit, "f")
    assert isinstance(result, LoopyResult)
    assert result.front_end == "loopy"


def test_opencl():
    """A Source goes to that of OpenCL C."""
    source = kcl.Source(
        "kernel void f(global float *a) {}",
        arguments=[kcl.Array("a", np.float32, "(4,)")],
        global_size="(4,)",
        entry="f",
    )
    result = accept(source, "f")
    assert isinstance(result, SourceResult)
    assert result.front_end == "opencl"


@pytest.mark.parametrize("result", [None, "kernel void f() {}", 3, object(), kcl.Source])
def test_neither(result):
    """Anything else is refused with the name of the recipe and what to return."""
    with pytest.raises(RecipeError, match=r"'mine'.*TranslationUnit.*kcl\.Source"):
        accept(result, "mine")


@pytest.mark.parametrize("module", [lp, face])
def test_executor(module, context):
    """An executor, of loopy or of a recorded unit, is refused with what to leave out."""
    executor = module.make_kernel("{[i]: 0<=i<4}", "a[i] = 1", lang_version=(2018, 2)).executor(
        context
    )
    with pytest.raises(
        RecipeError, match=r"'mine' returned .*Executor; .*leave `\.executor\(context\)` out"
    ):
        accept(executor, "mine")
