"""kcl.build.bind: an invoker and the kernels of a program become a launcher."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import kcl
from kcl.build.bind import launcher_of
from kcl.cache.lead import Lead
from kcl.generate.origins.recorded import RecordedOrigin
from kcl.generate.stage import CallValues
from kcl.line import Line
from kcl.record.declarations import NOTHING, RecipeCall

pytestmark = pytest.mark.one_platform


def doubled():
    """Return OpenCL C that doubles."""
    code = "kernel void f(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = 2 * x[i]; }"
    arguments = [kcl.Array("x", "float32", "(4,)"), kcl.Array("y", "float32", "(4,)", "out")]
    return kcl.Source(code, entry="f", arguments=arguments, global_size="(4,)")


def bound(context):
    """Return two launchers of one program."""
    line = Line(RecordedOrigin(RecipeCall("doubled", doubled, {}, NOTHING)), doubled)
    with Lead("doubled") as lead:
        ready = line.code(context, CallValues({}), lead)
        program = line.bound(context, ready, lead).program
    return launcher_of(ready, program), launcher_of(ready, program)


class TestLauncher:
    def test_launch(self, context):
        """A launcher computes what the code says, and takes the dtype and shape of outputs from it."""
        launcher, _other = bound(context)
        _event, (y,) = launcher(cl.CommandQueue(context), None, None, None, {"x": np.arange(4, dtype=np.float32)})
        assert y.tolist() == [0, 2, 4, 6]

    def test_kernels_are_its_own(self, context):
        """Two launchers of one program have kernel objects of their own: threads do not mix their arguments."""
        one, other = bound(context)
        assert one.program is other.program
        assert one.kernels.f is not other.kernels.f

    def test_required(self, context):
        """The arrays that every call must give are those that are no outputs."""
        assert bound(context)[0].required == {"x"}
