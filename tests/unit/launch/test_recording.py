"""kcl.launch.recording: what an invoker does with a call, found on stand-ins; invokers are those of real kernels."""

import types

import pyopencl as cl
import pyopencl.array as cl_array
import pytest

from kcl.launch.recording import Mark, NotPlayable, record

pytestmark = pytest.mark.one_platform


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


LAUNCH = "event = cl.enqueue_nd_range_kernel(queue, f, (1,), None, None, wait_for)\n"
SET = "f = _kernels.f\nf.set_args(a)\n"


def test_usual():
    """An invoker that sets arguments, enqueues and returns its event is recorded."""
    found = noted(SET + LAUNCH + "return event, ()", a=2)
    (step,) = found.steps
    assert (step.kernel, step.arguments) == ("f", {0: ("_set_arg_multi", (2,))})
    assert found.outputs == ()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("f = _kernels.f\nf.info()\n", "calls info"),
        ("cl.enqueue_barrier(queue)\n", "uses enqueue_barrier"),
        ("f = _kernels.f\nf.set_args([a])\n", "another kind"),
        ("f = _kernels.f\n" + LAUNCH, "sets arguments in another way"),
        (SET + LAUNCH.replace("1,", "1.5,"), "no numbers"),
        (SET + LAUNCH.replace("wait_for", "[a]"), "enqueues in another way"),
        (SET + 2 * LAUNCH, "enqueues in another way"),
        (SET + LAUNCH + "return None, ()", "event of another launch"),
        (SET + LAUNCH + "return event, (a,)", "something else than arrays"),
    ],
)
def test_whatever_an_invoker_does_beyond_that_is_left_to_it_and_is_named(body, said):
    with pytest.raises(NotPlayable, match=said):
        noted(body, a=2)


@pytest.mark.parametrize(
    "ask", [bool, lambda mark: mark == 1, lambda mark: mark != mark, lambda mark: mark in [2]]
)
def test_an_invoker_that_decides_by_a_value_cannot_be_recorded(ask):
    with pytest.raises(NotPlayable, match="decides"):
        ask(Mark("a"))


@pytest.mark.parametrize("compute", [hash, lambda mark: mark + 1, lambda mark: mark[0], len, iter])
def test_computation(compute):
    """So it is with one that computes with it."""
    with pytest.raises(TypeError):
        compute(Mark("a"))
