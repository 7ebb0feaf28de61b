"""kcl.launch: hot calls compute and refuse what the invoker does. Whole answers: test_executor.py."""

import threading
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
    return kcl.Source(
        "kernel void repeated(global float *y, global const float *x, float a, int n, int shift)"
        "{ int i = get_global_id(0); y[i] = a*x[i % n] + shift; }",
        entry="repeated",
        arguments=[
            kcl.Array("y", np.float32, "(n*n,)", "out"),
            kcl.Array("x", np.float32, "(n,)"),
            kcl.Scalar("a", np.float32),
            kcl.Scalar("n", np.int32),
            kcl.Scalar("shift", np.int32),
        ],
        global_size="(n*n,)",
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


class TestRefusals:
    @pytest.mark.parametrize("what", WRONG)
    def test_as_before(self, queue, monkeypatch, what):
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
    def test_another_context(self, queue, device, monkeypatch, name):
        """Memory of another context is for the driver to refuse: it sees the same as in a first call."""
        context = cl.Context([device])
        other = cl.CommandQueue(context)
        good = {"x": on(queue, range(N)), "y": on(queue, range(N)), "a": 2.0}
        wrong = good | {name: on(other, range(N))}
        first = cl.CommandQueue(queue.context)
        monkeypatch.setattr(launch, "HOT", 10**9)
        SCALE(first, **good)
        expected = error_of(lambda: SCALE(first, **wrong)[0].wait())  # noqa: PLW0108
        monkeypatch.setattr(launch, "HOT", 0)
        for _ in range(2):
            SCALE(queue, **good)
        assert error_of(lambda: SCALE(queue, **wrong)[0].wait()) == expected  # noqa: PLW0108

    def test_queue_of_another_context(self, queue, device):
        """A hot Kernel that is called on a new context launches the program of that context."""
        x = on(queue, range(N))
        for _ in range(2):
            SCALE(queue, x=x, a=2.0)
        context = cl.Context([device])
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
        x = on(queue, range(3))
        for shift in range(5):
            for a in (1.0, np.float32(2.0), 3):
                _event, (y,) = REPEATED(queue, x=x, a=a, n=3, shift=shift)
                assert y.get(queue).tolist() == [float(a) * i + shift for i in range(3)] * 3
        assert len(signatures(queue)) == 1
        _event, (y,) = REPEATED(queue, x=on(queue, range(2)), a=1.0, n=2, shift=0)
        assert y.get(queue).tolist() == [0.0, 1.0] * 2
        assert len(signatures(queue)) == 2

    def test_without_the_private_setters(self, queue, monkeypatch):
        """A pyopencl that sets arguments in another way is launched by the invoker alone."""
        monkeypatch.setattr(recording, "WIDTH", {})
        x = on(queue, range(4))
        for _ in range(3):
            _event, (y,) = SCALE(queue, x=x, a=2.0)
        assert y.get(queue).tolist() == [1.0, 3.0, 5.0, 7.0]
        assert launcher_on(queue).hot is None

    def test_not_before_it_pays(self, queue, monkeypatch):
        """The first calls are the invoker's."""
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
        queue, other, third = (
            cl.CommandQueue(context, properties=order),
            *(cl.CommandQueue(context) for _ in range(2)),
        )
        x, y, z = (on(third, [0.0] * 5) for _ in range(3))
        for _ in range(3):
            SCALE(queue, x=x, y=y, a=2.0)
        queue.finish()
        assert launcher_on(queue).hot is not None
        gate, new, writer = (
            cl.UserEvent(context),
            np.arange(5, dtype=np.float32),
            queue if same else other,
        )
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
        """On a queue in order the last event stands for all of that queue; another queue's stays beside it."""
        x, y = on(queue, range(5)), on(queue, range(5))
        for _ in range(20):
            event, _outputs = SCALE(queue, x=x, y=y, a=2.0)
            assert y.events[-1] == event
        assert y.events == [event]
        other = cl.enqueue_marker(cl.CommandQueue(queue.context))
        y.add_event(other)
        event, _outputs = SCALE(queue, x=x, y=y, a=2.0)
        assert other in y.events
        assert event in y.events

    def test_of_other_commands_of_the_queue(self, queue):
        """Events that pyopencl left there are known by their queue, and are no cause to take the long way."""
        x, y = on(queue, range(5)), on(queue, range(5))
        for _ in range(100):
            x.add_event(cl.enqueue_marker(queue))
            event, _outputs = SCALE(queue, x=x, y=y, a=2.0)
        assert y.events == [event]
        assert len(queue._kcl_bindings.own_events) <= events.AHEAD + events.RECENT

    def test_unmanaged(self, queue):
        """Under loopy's option no event is left on an array."""
        x, y = on(queue, range(5)), on(queue, range(5))
        for _ in range(3):
            UNMANAGED(queue, x=x, y=y, a=2.0)
        assert launcher_on(queue).hot is not None
        assert (x.events, y.events) == ([], [])


class TestLives:
    @pytest.mark.parametrize("outputs", [True, False], ids=["given", "allocated"])
    def test_arrays_die_with_the_user(self, queue, outputs):
        """Nothing keeps an array or its memory after a hot call."""
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
        assert bindings() is not None
        del bound, queue, x
        assert bindings() is None


class TestThreads:
    def test_arguments_do_not_mix(self, context):
        """Threads with scalars and arrays of their own on one queue each get their own results."""
        queue, found = cl.CommandQueue(context), {}

        def work(number):
            x, done = on(queue, range(4)), []
            for repeat in range(100):
                y = on(queue, [0.0] * 4)
                SCALE(queue, x=x, y=y, a=float(100 * number + repeat))
                done.append(y)
            queue.finish()
            found[number] = [y.get(queue)[1] - 1 for y in done]

        at_once(work)
        assert found == {
            number: [float(100 * number + repeat) for repeat in range(100)] for number in range(8)
        }


class TestBind:
    def test_launches(self, queue):
        """It launches with new arrays and scalars, returns the event, and leaves none on an array."""
        x, y = on(queue, range(4)), on(queue, range(4))
        bound = SCALE.bind(queue, x=x, y=y, a=0.0)
        assert y.get(queue).tolist() == [0.0, 1.0, 2.0, 3.0]
        for a in range(3):
            y = on(queue, range(4))
            event = bound(x=x, y=y, a=a)
            assert isinstance(event, cl.Event)
            assert (x.events, y.events) == ([], [])
            event.wait()
            assert y.get(queue).tolist() == [a * i + 1.0 for i in range(4)]

    def test_other_shapes(self, queue):
        """What it was bound with is an example."""
        bound = SCALE.bind(queue, x=on(queue, range(4)), y=on(queue, range(4)), a=0.0)
        x, y = on(queue, range(9)), on(queue, range(9))
        bound(x=x, y=y, a=1.0).wait()
        assert y.get(queue).tolist() == [i + 1.0 for i in range(9)]

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
        thread = threading.Thread(
            target=lambda: seen.append(error_of(lambda: bound(x=x, y=y, a=1.0)))
        )
        thread.start()
        thread.join()
        assert seen[0]["classes"][0] == "RuntimeError"
        assert "thread" in seen[0]["message"]
