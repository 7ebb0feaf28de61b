"""kcl.frontends: a recipe's result goes to the front end that knows it."""

from __future__ import annotations

import numpy as np
import pytest
from loopys_own import loopy as lp

import kcl
import kcl.loopy as face
from kcl.errors import RecipeError
from kcl.frontends import hold
from kcl.frontends.loopy.translation import LoopyUnit
from kcl.frontends.source.result import SourceUnit


def test_loopy():
    """A unit of loopy goes to loopy's front end."""
    unit = lp.make_kernel("{[i]: 0<=i<4}", "a[i] = 1", lang_version=(2018, 2))
    result = hold(unit, "f")
    assert isinstance(result, LoopyUnit)
    assert result.front_end == "loopy"


def test_opencl():
    """A Source goes to that of OpenCL C."""
    source = kcl.Source(
        "kernel void f(global float *a) {}",
        arguments=[kcl.Array("a", np.float32, "(4,)")],
        global_size="(4,)",
        entry="f",
    )
    result = hold(source, "f")
    assert isinstance(result, SourceUnit)
    assert result.front_end == "opencl"


@pytest.mark.parametrize("result", [None, "kernel void f() {}", 3, object(), kcl.Source])
def test_neither(result):
    """Anything else is refused with the name of the recipe and what to return."""
    with pytest.raises(RecipeError, match=r"'mine'.*TranslationUnit.*kcl\.Source"):
        hold(result, "mine")


@pytest.mark.parametrize("module", [lp, face])
def test_executor(module, context):
    """An executor, of loopy or of a recorded unit, is refused with what to leave out."""
    executor = module.make_kernel("{[i]: 0<=i<4}", "a[i] = 1", lang_version=(2018, 2)).executor(
        context
    )
    with pytest.raises(
        RecipeError, match=r"'mine' returned .*Executor; .*leave `\.executor\(context\)` out"
    ):
        hold(executor, "mine")


HEAD = """
import builtins, importlib, json, sys
import kcl
@kcl.kernel
def nothing():
    pass
come = lambda: "kcl.frontends.loopy.imports" in sys.modules
before = come()
"""


@pytest.mark.parametrize(
    "line",
    [
        "import loopy",
        "from loopy import make_kernel",
        "import pymbolic.primitives",
        'importlib.import_module("cgen")',
    ],
)
def test_first_import(child, line):
    """The front end of loopy comes with the first import of loopy, or of what it is made of."""
    assert child.json(f"{HEAD}{line}\nprint(json.dumps([before, come()]))") == [False, True]


def test_the_first_import_gives_the_face(child):
    """Also where another function stands in front of Python's import."""
    code = """
own = builtins.__import__
builtins.__import__ = lambda *given, **named: own(*given, **named)
import loopy
from kcl.frontends.loopy import face
print(json.dumps([loopy is face.face, "loopy.kernel" in sys.modules]))
"""
    assert child.json(HEAD + code) == [True, False]


def test_other_imports(child):
    """Any other import brings nothing, and a recipe of a kcl.Source neither."""
    code = "import decimal, numpy\nimport os.path\nprint(json.dumps([before, come()]))"
    assert child.json(HEAD + code) == [False, False]


def test_loopy_that_was_there_before(child):
    """A recipe brings the front end where the library is imported already."""
    assert child.json(f"import loopy\n{HEAD}print(json.dumps(come()))") is True
