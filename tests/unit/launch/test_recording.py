"""kcl.launch.recording: what an invoker does with a call, found on stand-ins; invokers are those of real kernels."""

from __future__ import annotations

import types

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from hot_calls import launcher_on, on

import kcl
from kcl.launch.placeholders import NotPlayable
from kcl.launch.recording import record

pytestmark = pytest.mark.one_platform

CODE = """
kernel void f(global const float *x, global float *y, float a, int n)
{ size_t i = get_global_id(0); if (i < n) y[i] = a * x[i]; }
"""


@kcl.kernel
def scaled():
    """y = a*x."""
    arguments = [kcl.Array("x", "float32", "(n,)"), kcl.Array("y", "float32", "(n,)", "out")]
    arguments += [kcl.Scalar("a", "float32"), kcl.Scalar("n", "int32")]
    return kcl.Source(CODE, entry="f", arguments=arguments, global_size="(n,)")


KERNEL = scaled()


@pytest.fixture
def launcher(queue):
    """A launcher that launched once."""
    KERNEL(queue, x=on(queue, range(4)), a=2.0)
    return launcher_on(queue)


def recorded(launcher, values, *passed):
    """Record a call."""
    return record(launcher.invoke, launcher.kernels, values, frozenset(passed))


class Kernels:
    """Device kernels that only know how many arguments they have."""

    f = g = types.SimpleNamespace(num_args=1)


def noted(body, **values):
    """Record an invoker with this body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    text = f"def invoke(_kernels, queue, allocator, wait_for, out_host, *, {', '.join(values)}):\n{lines}\n"
    names = {"cl": cl, "cl_array": cl_array}
    exec(text, names)
    return record(names["invoke"], Kernels(), values, frozenset())


class TestRecord:
    def test_call(self, queue, launcher):
        """A call is one step; what is given stays an expression, and what follows from layouts is a number."""
        x, y = on(queue, range(4)), on(queue, range(4))
        found = recorded(launcher, {"x": x, "y": y, "a": 2.0}, "a")
        (step,) = found.steps
        assert step.kernel == "f"
        assert tuple(step.sizes[0]) == (4,)
        assert sorted(step.arguments) == [0, 1, 2, 3]
        texts = [item.text for index in range(3) for item in step.arguments[index][1]]
        assert texts == ["x.base_data", "y.base_data", "_kcl_type_a(a)"]
        assert step.arguments[3][1] == (4,)
        assert found.made == []
        assert (found.outputs, found.written) == (("y",), ["y"])
        assert sorted(set(found.waited)) == ["x", "y"]

    def test_output(self, queue, launcher):
        """An output that is not given is allocated, with its layout as a number of this signature."""
        found = recorded(launcher, {"x": on(queue, range(5)), "a": 2.0}, "a")
        (made,) = found.made
        assert (made.found["shape"], made.found["dtype"], made.size) == ((5,), np.float32, 20)
        assert found.outputs == (made.name,)
        assert made.name in found.written

    def test_launches_nothing(self, queue, launcher):
        """Recording leaves arrays and their events alone."""
        x, y = on(queue, range(4)), on(queue, [7] * 4)
        recorded(launcher, {"x": x, "y": y, "a": 2.0}, "a")
        assert (x.events, y.events) == ([], [])
        assert y.get(queue).tolist() == [7.0] * 4

    def test_refused(self, queue, launcher):
        """What the invoker refuses it refuses on stand-ins too."""
        with pytest.raises(TypeError, match="bogus"):
            recorded(launcher, {"x": on(queue, range(4)), "a": 2.0, "bogus": 1})

    def test_value_decides(self, queue, launcher):
        """A number that decides a size cannot be handed on."""
        values = {"x": on(queue, range(4)), "a": 2.0, "n": 4}
        assert tuple(recorded(launcher, values, "a").steps[0].sizes[0]) == (4,)
        with pytest.raises(NotPlayable, match="a value decides"):
            recorded(launcher, values, "a", "n")


ENQUEUE = "event = cl.enqueue_nd_range_kernel(queue, f, {size}, None, None, wait_for)\n"
SET = "f = _kernels.f\nf.set_args(a)\n"


class TestUnusual:
    def test_usual(self):
        """An invoker that sets arguments, enqueues and returns its event is recorded."""
        found = noted(SET + ENQUEUE.format(size="(1,)") + "return event, ()", a=2)
        assert [(step.kernel, step.arguments) for step in found.steps] == [("f", {0: ("_set_arg_multi", (2,))})]
        assert found.outputs == ()

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ("f = _kernels.f\nf.info()\n", "calls info"),
            ("cl.enqueue_barrier(queue)\n", "uses enqueue_barrier"),
            ("f = _kernels.f\nf.set_args([a])\n", "another kind"),
            ("f = _kernels.f\n" + ENQUEUE.format(size="(1,)"), "sets arguments in another way"),
            (SET + ENQUEUE.format(size="(1.5,)"), "no numbers"),
            (SET + ENQUEUE.format(size="(1,)").replace("wait_for", "[a]"), "enqueues in another way"),
            (SET + 2 * ENQUEUE.format(size="(1,)"), "enqueues in another way"),
            (SET + ENQUEUE.format(size="(1,)") + "return None, ()", "event of another launch"),
            (SET + ENQUEUE.format(size="(1,)") + "return event, (a,)", "something else than arrays"),
        ],
    )
    def test_unusual(self, body, said):
        """Whatever an invoker does beyond that is left to it, and is named."""
        with pytest.raises(NotPlayable, match=said):
            noted(body, a=2)
