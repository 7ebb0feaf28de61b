"""kcl.launch: hot calls compute and refuse what the invoker does. Whole answers: test_executor.py."""

import weakref

import executor_cases
import numpy as np
import pyopencl as cl
import pytest
from at_once import at_once
from executor_cases import error_of
from hot_calls import launcher_on, on

import kcl
from kcl import launch
from kcl.launch import events, recording, replay

pytestmark = pytest.mark.slow_platforms

COMPLETE = cl.command_execution_status.COMPLETE
OUT_OF_ORDER = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
SCALE = executor_cases.scale()
UNMANAGED = executor_cases.scale(events=False)
TWO_STEPS = executor_cases.two_steps()


@kcl.kernel
def repeated():
    """y = a*x + shift, n times: n decides sizes, the others are handed on; in OpenCL C."""
    names = {"a": np.float32, "n": np.int32, "shift": np.int32}
    return kcl.Source(
        "kernel void repeated(global float *y, global const float *x, float a, int n, int shift)"
        "{ int i = get_global_id(0); y[i] = a*x[i % n] + shift; }",
        entry="repeated",
        arguments=[
            kcl.Array("y", np.float32, "n*n", "out"),
            kcl.Array("x", np.float32, "n"),
            *(kcl.Scalar(name, dtype) for name, dtype in names.items()),
        ],
        global_size="n*n",
    )


REPEATED = repeated()


@pytest.fixture(autouse=True)
def _hot(monkeypatch):
    """Play every call that can be played."""
    monkeypatch.setattr(launch, "HOT", 0)


def signatures(queue):
    """Return the signatures that are known for the calls last played on a queue."""
    return launcher_on(queue).hot.__globals__["_kcl_choose"].__self__._known


def is_complete(event):
    return event.command_execution_status == COMPLETE


N = 6
WRONG = {
    "dtype of an input": lambda q: {"x": on(q, range(N), np.float64)},
    "dtype of an output": lambda q: {"y": on(q, range(N), np.float64)},
    "dtype of the same size": lambda q: {"x": on(q, range(N), np.int32)},
    "shape of an input": lambda q: {"x": on(q, range(N + 1))},
    "shape of an output": lambda q: {"y": on(q, range(N - 1))},
    "number of axes": lambda q: {"x": on(q, range(N)).reshape(1, N)},
    "strides of an input": lambda q: {"x": on(q, range(2 * N))[::2]},
    "strides of an output": lambda q: {"y": on(q, range(2 * N))[::2]},
    "offset of an input": lambda q: {"x": on(q, range(2 * N))[2 : N + 2]},
    "offset of an output": lambda q: {"y": on(q, range(2 * N))[2 : N + 2]},
    "size": lambda _q: {"n": N - 1},
    "text for a scalar": lambda _q: {"a": "two"},
    "list for a scalar": lambda _q: {"a": [2.0]},
    "no scalar": lambda _q: {"a": None},
    "no input": lambda _q: {"x": None},
    "buffer for an array": lambda q: {"x": on(q, range(N)).base_data},
    "list for an array": lambda _q: {"x": [1.0, 2.0]},
    "number for an array": lambda _q: {"x": 2.0},
    "unknown name": lambda _q: {"bogus": 3},
}


@pytest.mark.parametrize("what", WRONG)
def test_refused_as_before(queue, monkeypatch, what):
    """After hot calls a wrong argument gets the error of a first call, and the next call is a hot one."""
    good = {"x": on(queue, range(N)), "y": on(queue, range(N)), "a": 2.0}
    wrong = good | WRONG[what](queue)
    first = cl.CommandQueue(queue.context)
    monkeypatch.setattr(launch, "HOT", 10**9)
    SCALE(first, **good)
    expected = error_of(lambda: SCALE(first, **wrong))
    assert expected is not None
    monkeypatch.setattr(launch, "HOT", 0)
    for _ in range(2):
        SCALE(queue, **good)
    bound = SCALE.bind(queue, **good)
    assert launcher_on(queue).hot is not None
    assert error_of(lambda: SCALE(queue, **wrong)) == expected
    if wrong.keys() == good.keys():
        assert error_of(lambda: bound(**wrong)) == expected
    launcher_on(queue).hot = None
    SCALE(queue, **good)
    assert launcher_on(queue).hot is not None


@pytest.mark.parametrize("name", ["x", "y"])
def test_another_context(queue, device, monkeypatch, name):
    """Memory of another context is for the driver to refuse: it sees the same as in a first call.

    The Kernel computes in that context, too.
    """
    context = cl.Context([device])
    good = {"x": on(queue, range(N)), "y": on(queue, range(N)), "a": 2.0}
    wrong, errors = good | {name: on(cl.CommandQueue(context), range(N))}, []
    for hot in (10**9, 0):
        monkeypatch.setattr(launch, "HOT", hot)
        mine = cl.CommandQueue(queue.context)
        for _ in range(2):
            SCALE(mine, **good)
        errors.append(error_of(lambda mine=mine: SCALE(mine, **wrong)[0].wait()))
    assert errors[0] == errors[1]
    other = cl.CommandQueue(context)
    for _ in range(2):
        _event, (y,) = SCALE(other, x=on(other, range(N)), a=3.0)
    assert y.get(other).tolist() == [3.0 * i + 1 for i in range(N)]


class TestSignatures:
    def test_shapes_that_change(self, queue):
        """Calls of many shapes in turn, more than are remembered, each compute their own."""
        arrays = [on(queue, range(n)) for n in range(1, replay._SIGNATURES + 9)]
        for _ in range(2):
            for x in arrays:
                _event, (y,) = SCALE(queue, x=x, a=2.0)
                assert y.get(queue).tolist() == [2.0 * i + 1 for i in range(len(x))]
        assert len(signatures(queue)) == replay._SIGNATURES

    def test_scalars_that_are_handed_on(self, queue):
        """A scalar that decides nothing makes no signature; one that decides sizes does."""
        for n, number in ((3, 1), (2, 2)):
            for a, shift in ((1.0, 0), (np.float32(2.0), 1), (3, 2)):
                x = on(queue, range(n))
                _event, (y,) = REPEATED(queue, x=x, a=a, n=n, shift=shift)
                assert y.get(queue).tolist() == [float(a) * i + shift for i in range(n)] * n
            assert len(signatures(queue)) == number

    def test_without_the_private_setters(self, queue, monkeypatch):
        """A pyopencl that sets arguments in another way is launched by the invoker alone."""
        monkeypatch.setattr(recording, "WIDTH", {})
        x = on(queue, range(4))
        for _ in range(3):
            _event, (y,) = SCALE(queue, x=x, a=2.0)
        assert y.get(queue).tolist() == [1.0, 3.0, 5.0, 7.0]
        assert launcher_on(queue).hot is None

    def test_the_first_calls_are_the_invokers(self, queue, monkeypatch):
        monkeypatch.setattr(launch, "HOT", 3)
        x, seen = on(queue, range(4)), []
        for _ in range(5):
            SCALE(queue, x=x, a=2.0)
            seen.append(launcher_on(queue).hot is not None)
        assert seen == [False, False, False, True, True]


class TestEvents:
    @pytest.mark.parametrize(
        ("order", "same"),
        [(0, False), (OUT_OF_ORDER, False), (OUT_OF_ORDER, True)],
        ids=["in order", "out of order", "same queue out of order"],
    )
    def test_are_waited_for(self, context, order, same):
        """A launch reads what another queue, or its own one without an order, writes only after it was written."""
        queue = cl.CommandQueue(context, properties=order)
        other, third = cl.CommandQueue(context), cl.CommandQueue(context)
        x, y, z = (on(third, [0.0] * 5) for _ in range(3))
        for _ in range(3):
            SCALE(queue, x=x, y=y, a=2.0)
        queue.finish()
        assert launcher_on(queue).hot is not None
        gate, new = cl.UserEvent(context), np.arange(5, dtype=np.float32)
        writer = queue if same else other
        x.add_event(cl.enqueue_copy(writer, x.base_data, new, is_blocking=False, wait_for=[gate]))
        event, _outputs = SCALE(queue, x=x, y=y, a=2.0)
        queue.flush()
        for _ in range(3):
            SCALE(third, x=z, a=1.0)[0].wait()  # time in which a launch that does not wait is over
        assert not is_complete(event)
        gate.set_status(COMPLETE)
        event.wait()
        assert y.get(third).tolist() == [2.0 * i + 1 for i in range(5)]
        other.finish()

    def test_one_is_left(self, queue):
        """On a queue in order the last event stands for all of that queue, those of pyopencl too, but for no other."""
        x, y = on(queue, range(5)), on(queue, range(5))
        for _ in range(100):
            x.add_event(cl.enqueue_marker(queue))
            event, _outputs = SCALE(queue, x=x, y=y, a=2.0)
            assert y.events[-1] == event
        assert y.events == [event]
        assert len(queue._kcl_bindings.own_events) <= events.AHEAD + events.RECENT
        other = cl.enqueue_marker(cl.CommandQueue(queue.context))
        y.add_event(other)
        event, _outputs = SCALE(queue, x=x, y=y, a=2.0)
        assert {other, event} <= {*y.events}

    def test_under_loopys_option_no_event_is_left_on_an_array(self, queue):
        x, y = on(queue, range(5)), on(queue, range(5))
        for _ in range(3):
            UNMANAGED(queue, x=x, y=y, a=2.0)
        assert launcher_on(queue).hot is not None
        assert (x.events, y.events) == ([], [])


class TestLives:
    @pytest.mark.parametrize("outputs", [True, False], ids=["given", "allocated"])
    def test_nothing_keeps_an_array_or_its_memory_after_a_hot_call(self, queue, outputs):
        kept = []
        for _ in range(4):
            x, y = on(queue, range(5)), on(queue, range(5))
            _event, (out,) = SCALE(queue, x=x, a=2.0, **({"y": y} if outputs else {}))
            kept += [weakref.ref(one) for one in (x, y, out)]
        assert launcher_on(queue).hot is not None
        del x, y, out
        assert [one() for one in kept] == [None] * len(kept)

    def test_contexts_die_with_the_queue(self, device):
        """After hot calls a context goes as its queue goes, without the garbage collector."""
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        x = on(queue, range(5))
        for _ in range(3):
            SCALE(queue, x=x, a=2.0)
        queue.finish()
        bound = SCALE.bind(queue, x=x, y=x, a=2.0)
        bindings = weakref.ref(queue._kcl_bindings.build)
        del bound, queue, x
        assert bindings() is None


class TestBind:
    def test_launches(self, queue):
        """It launches with new arrays of any shape and scalars, returns the event, and leaves none on an array."""
        x, y = on(queue, range(4)), on(queue, range(4))
        bound = SCALE.bind(queue, x=x, y=y, a=0.0)
        assert y.get(queue).tolist() == [0.0, 1.0, 2.0, 3.0]
        for a, n in ((0, 4), (1, 4), (2, 9)):
            x, y = on(queue, range(n)), on(queue, range(n))
            bound(x=x, y=y, a=a).wait()
            assert (x.events, y.events) == ([], [])
            assert y.get(queue).tolist() == [a * i + 1.0 for i in range(n)]

    def test_what_cannot_be_played(self, queue):
        """A kernel with temporaries is launched by its invoker, arrays without their events."""
        x, y = on(queue, range(9)), on(queue, range(9))
        bound = TWO_STEPS.bind(queue, x=x, y=y)
        bound(x=x, y=y).wait()
        assert (x.events, y.events) == ([], [])
        assert y.get(queue).tolist() == [2.0 * (8 - i) + 1 for i in range(9)]

    def test_wants_every_array_on_the_device(self, queue):
        """An output that is left out, or a numpy array, is a TypeError that names it."""
        x, y = on(queue, range(4)), on(queue, range(4))
        with pytest.raises(TypeError, match=r"'scale'.*: y"):
            SCALE.bind(queue, x=x, a=0.0)
        with pytest.raises(TypeError, match=r"'scale'.*: x"):
            SCALE.bind(queue, x=x.get(queue), y=y, a=0.0)
        with pytest.raises(ValueError, match="shape mismatch"):
            SCALE.bind(queue, x=x, y=on(queue, range(5)), a=0.0)

    def test_is_for_one_thread(self, queue):
        """Another thread is refused: it must not set the arguments of this one's kernel."""
        x, y, seen = on(queue, range(4)), on(queue, range(4)), []
        bound = SCALE.bind(queue, x=x, y=y, a=0.0)
        at_once(lambda _: seen.append(error_of(lambda: bound(x=x, y=y, a=1.0))), 1)
        assert seen[0]["classes"][0] == "RuntimeError"
        assert "thread" in seen[0]["message"]
