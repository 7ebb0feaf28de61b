"""kcl.launch.replay: where a played call could do something else than its invoker. The plain cases: test_launch.py."""

import threading
import weakref
from fractions import Fraction

import executor_cases
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from executor_cases import error_of
from hot_calls import launcher_on, on

import kcl
from kcl import launch
from kcl.launch import events, replay

pytestmark = pytest.mark.slow_platforms

lp = kcl.lazy("loopy")
COMPLETE = cl.command_execution_status.COMPLETE
SCALE = executor_cases.scale()


@kcl.kernel
def square():
    """y[i, j] = x[i]: the output is as long as the square of the input."""
    x = lp.GlobalArg("x", np.float32, shape="n")
    y = lp.GlobalArg("y", np.float32, shape="n,n", is_input=False)
    arguments = [x, y, lp.ValueArg("n", np.int32)]
    return lp.make_kernel("{[i,j]: 0<=i,j<n}", "y[i,j] = x[i] + 0*j", arguments, name="square")


SQUARE = square()


@pytest.fixture(autouse=True)
def _hot(monkeypatch):
    """Play every call that can be played."""
    monkeypatch.setattr(launch, "HOT", 0)


def gated_copy(queue, array, values, gate):
    """Begin to copy from memory of the host, once the gate opens, and leave the event on the array."""
    array.add_event(
        cl.enqueue_copy(queue, array.base_data, values, is_blocking=False, wait_for=[gate])
    )
    queue.flush()


class TestCallsWithinCalls:
    def test_of_an_allocator(self, queue):
        """An allocator that calls the same Kernel with another shape changes nothing in the call that asked it."""
        big, small, inner = on(queue, range(9)), on(queue, range(3)), []

        def allocator(size):
            if not inner:
                inner.append(None)
                inner.append(SQUARE(queue, x=small)[1][0])
            return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)

        for x in (big, small, big, small):
            SQUARE(queue, x=x)
        for _ in range(3):
            inner.clear()
            _event, (y,) = SQUARE(queue, x=big, allocator=allocator)
            for found, n in ((y, 9), (inner[1], 3)):
                assert found.get(queue).tolist() == [[float(i)] * n for i in range(n)]

    @pytest.mark.parametrize(
        "error", [OSError("no more"), KeyboardInterrupt()], ids=["error", "interrupt"]
    )
    def test_of_an_allocator_that_raises(self, queue, error):
        """The error of an allocator, or an interrupt in the middle, is the caller's, and the next call is a hot one."""
        x = on(queue, range(4))

        def allocator(_size):
            raise error

        for _ in range(3):
            SCALE(queue, x=x, a=2.0)
            with pytest.raises(type(error)) as raised:
                SCALE(queue, x=x, a=2.0, allocator=allocator)
            assert raised.value is error
        launcher_on(queue).hot = None
        assert SCALE(queue, x=x, a=2.0)[1][0].get(queue).tolist() == [1.0, 3.0, 5.0, 7.0]
        assert launcher_on(queue).hot is not None


class TestEventsThatHoldMemory:
    def test_of_the_host_is_let_go(self, queue):
        """Memory of the host from which an array was copied goes with the array."""
        source = np.arange(5, dtype=np.float32)
        kept = weakref.ref(source)
        x, y = cl_array.to_device(queue, source), on(queue, range(5))
        for _ in range(4):
            SCALE(queue, x=x, y=y, a=2.0)
        assert launcher_on(queue).hot is not None
        assert len(x.events) == 1
        del x, source
        assert kept() is None

    @pytest.mark.parametrize("written", [True, False])
    def test_does_not_block_the_call(self, context, queue, written):
        """A copy from the host that has not begun is waited for by the device, not by the caller."""
        x, y = on(queue, range(5)), on(queue, range(5))
        for _ in range(3):
            SCALE(queue, x=x, y=y, a=2.0)
        gate, opened = cl.UserEvent(context), []

        def rescue():
            opened.append("by the clock")
            gate.set_status(COMPLETE)

        timer = threading.Timer(20.0, rescue)
        timer.start()
        gated_copy(queue, y if written else x, np.full(5, 7, np.float32), gate)
        event, _outputs = SCALE(queue, x=x, y=y, a=2.0)
        timer.cancel()
        assert not opened
        gate.set_status(COMPLETE)
        event.wait()
        assert y.get(queue).tolist() == ([2.0 * i + 1 for i in range(5)] if written else [15.0] * 5)
        for _ in range(3):
            event, _outputs = SCALE(queue, x=x, y=y, a=2.0)
        assert y.events[-1] == event


class TestLives:
    def test_examples_of_a_bound_kernel(self, queue):
        """What a kernel was bound with, and what it was called with, is not kept."""
        kept, bound = [], None
        for _ in range(3):
            x, y = on(queue, range(5)), on(queue, range(5))
            if bound is None:
                bound = SCALE.bind(queue, x=x, y=y, a=2.0)
            bound(x=x, y=y, a=2.0).wait()
            kept += [weakref.ref(one) for one in (x, y)]
        del x, y
        assert [one() for one in kept] == [None] * len(kept)

    def test_what_is_known_of_a_queue_goes_with_it(self, context):
        kept, x = [], on(cl.CommandQueue(context), range(5))
        for _ in range(4):
            queue = cl.CommandQueue(context)
            for _ in range(3):
                SCALE(queue, x=x, y=on(queue, range(5)), a=2.0)
            kept.append(weakref.ref(launcher_on(queue).hot))
            queue.finish()
            del queue
        assert [one() for one in kept] == [None] * 4


def test_a_queue_that_stands_still(context, queue):
    """A caller that nobody stops waits before the queue has grown without end."""
    x, y, z = (on(queue, range(5)) for _ in range(3))
    for _ in range(3):
        SCALE(queue, x=x, y=y, a=2.0)
    gate, made, seen = cl.UserEvent(context), [], []
    timer = threading.Timer(1.0, lambda: (seen.append(len(made)), gate.set_status(COMPLETE)))
    gated_copy(queue, z, np.zeros(5, np.float32), gate)
    timer.start()
    for number in range(3000):
        SCALE(queue, x=x, y=y, a=float(number))
        made.append(None)
    timer.join()
    assert seen[0] <= events.AHEAD + events.RECENT
    assert y.get(queue)[1] == 3000.0


class TestArguments:
    def test_an_array_after_none(self, queue):
        """An output that was None in earlier calls, and now is given, is written."""
        x, y = on(queue, range(4)), on(queue, [0.0] * 4)
        for _ in range(3):
            SCALE(queue, x=x, y=None, a=2.0)
        _event, (out,) = SCALE(queue, x=x, y=y, a=2.0)
        assert out is y
        assert y.get(queue).tolist() == [1.0, 3.0, 5.0, 7.0]

    @pytest.mark.parametrize(
        "a",
        [
            *(np.array(2.5), np.array([2.5]), Fraction(5, 2), np.longdouble(2.5), True),
            *(np.float16(2.5), 10**400, 1j),
        ],
        ids=lambda a: type(a).__name__,
    )
    def test_scalars_of_other_kinds(self, queue, monkeypatch, a):
        """What is no ordinary number goes the way of a first call: the same result or the same error."""
        found = []
        for hot in (10**9, 0):
            monkeypatch.setattr(launch, "HOT", hot)
            mine = cl.CommandQueue(queue.context)
            x, y = on(mine, range(4)), on(mine, range(4))
            for _ in range(3):
                SCALE(mine, x=x, y=y, a=2.0)
            error = error_of(lambda mine=mine, x=x, y=y: SCALE(mine, x=x, y=y, a=a))
            found.append((error and error["classes"], y.get(mine).tolist()))
        assert found[0] == found[1]

    def test_layouts_of_numpy_integers(self, queue):
        """Layouts in numpy's integers, with which sums can wrap around, are the invoker's."""
        x = on(queue, range(4))
        x.shape = (np.int16(4),)
        for _ in range(3):
            _event, (y,) = SCALE(queue, x=x, a=2.0)
            assert y.get(queue).tolist() == [1.0, 3.0, 5.0, 7.0]
        assert launcher_on(queue).hot is None

    def test_refused_again_and_again(self, queue):
        """Where the invoker refuses every call of a kind, kcl stops to learn it."""
        x = on(queue, range(4))
        for _ in range(replay._FAILURES + 2):
            assert error_of(lambda: SCALE(queue, x=x, a=2.0, bogus=1)) is not None
        assert launcher_on(queue).learn is None
        assert SCALE(queue, x=x, a=2.0)[1][0].get(queue).tolist() == [1.0, 3.0, 5.0, 7.0]
