"""Units that were recorded are launched as loopy's are: directly, and through executors."""

import functools
import importlib
import shutil
import threading
import time
import warnings

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from recorded_units import make, waits

import kcl.loopy as lp
from kcl import handle
from kcl.frontends.loopy import executor, recorder, unmade

pytestmark = pytest.mark.slow_platforms

loopy = importlib.import_module("loopy")
FIRST = np.arange(16, dtype=np.float32)
TWICE = "out[i] = 2*a[i]"


def typed(module=lp):
    return module.add_dtypes(make(TWICE, module, name="doubled"), {"a": np.float32})


def for_target(target):
    arguments = [lp.GlobalArg("a,out", np.float32, shape=(16,))]
    return make(TWICE, kernel_data=arguments, target=target, name="doubled")


def two(module=lp):
    thrice = make("out[i] = 3*a[i]", module, name="tripled")
    return module.merge([make(TWICE, module, name="doubled"), thrice])


def doubles(launch, *queues, **more):
    """Return True if a launch computes what the first entry point does."""
    _event, (out,) = launch(*queues, a=FIRST, **more)
    return np.array_equal(out, 2 * FIRST)


class TestCalls:
    def test_a_direct_call_warns_at_the_users_line(self, queue):
        """A direct call computes, and warns in loopy's words under loopy's category, at the line of the call."""
        unit = typed()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            _event, (out,) = unit(queue, a=FIRST)
            typed(loopy)(queue, a=FIRST)
        assert np.array_equal(out, 2 * FIRST)
        mine, own = [one for one in heard if "TranslationUnit.__call__" in str(one.message)]
        assert (mine.category, str(mine.message)) == (own.category, str(own.message))
        assert (mine.filename, mine.lineno + 1) == (own.filename, own.lineno)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_called_again_and_again(self, queue, looks):
        unit = typed()
        assert doubles(unit, queue)
        looks.clear()
        before = recorder.thread.carried
        for number in range(5):
            assert np.array_equal(unit(queue, a=FIRST + number)[1][0], 2 * (FIRST + number))
        assert looks == []
        assert recorder.thread.carried == before

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_a_method_that_the_program_replaced(self, queue, monkeypatch):
        """A unit is launched unmade though loopy is imported, unless the program replaced the method."""
        typed()
        unit, later = typed(), typed()
        assert doubles(unit, queue)
        assert type(unit) is unmade.RecordedUnit
        calls, own = [], loopy.TranslationUnit.__call__

        def replaced(self, *given, **more):
            calls.append(self)
            return own(self, *given, **more)

        monkeypatch.setattr(loopy.TranslationUnit, "__call__", replaced)
        assert doubles(later, queue)
        assert calls == [later]
        assert type(later) is loopy.TranslationUnit

    def test_another_target(self, queue):
        """Units for other targets are loopy's own business."""
        for _ in range(2):
            unit = for_target(lp.CTarget())
        assert "void doubled" in lp.generate_code_v2(unit).device_code()
        with pytest.raises(Exception):  # noqa: B017
            unit.executor(queue)(queue, a=FIRST)

    @pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_c_that_is_executed(self):
        assert doubles(for_target(lp.ExecutableCTarget()).executor())


class TestExecutors:
    def test_of_a_context_or_a_queue(self, queue, context):
        """An executor of a context serves any queue of it; a queue of another context is refused, as by OpenCL."""
        another = cl.Context([queue.device])  # Intel's queue keeps none alive
        other = cl.CommandQueue(another)
        # Intel's runtime looks at the buffers first
        codes = cl.status_code.INVALID_CONTEXT, cl.status_code.INVALID_MEM_OBJECT
        for holder in (queue, context):
            run = typed().executor(holder)
            for where in (queue, cl.CommandQueue(context)):
                assert doubles(run, where)
            typed().executor(other)(other, a=FIRST)
            words = "queue is of another context than the executor"
            with pytest.raises(cl.LogicError, match=words) as raised:
                run(other, a=FIRST)
            assert raised.value.code in codes

    @pytest.mark.timeout(60)
    def test_beside_a_call_of_loopy(self, queue, monkeypatch):
        """A thread that asks for an executor and one that carries a call out do not wait for each other for ever."""
        for _ in range(2):
            unit = typed()
        assert waits(unit)
        inside, find = threading.Event(), handle.kernel_of

        def slow(*given):
            inside.set()
            time.sleep(0.5)  # the other thread is in loopy by then
            return find(*given)

        monkeypatch.setattr(handle, "kernel_of", slow)
        first = threading.Thread(target=unit.executor, args=(queue,))
        first.start()
        inside.wait()
        second = threading.Thread(target=lambda: lp.split_iname(unit, "i", 2))
        second.start()
        first.join()
        second.join()
        assert not waits(unit)

    def test_of_nothing(self):
        """An executor of something else raises loopy's error."""
        with pytest.raises(TypeError):
            typed().executor()

    def test_what_loopys_executor_knows(self, queue):
        for _ in range(2):
            unit = typed()
        run, own = unit.executor(queue.context), typed(loopy).executor(queue.context)
        assert run.t_unit is unit
        assert type(unit) is unmade.RecordedUnit
        for name in ("entrypoint", "input_array_names", "context"):
            assert getattr(run, name) == getattr(own, name)
        assert run.get_code(None) == own.get_code(None)
        assert not hasattr(run, "nonexistent")
        assert doubles(run, queue)

    def test_switched_off_after_the_record(self, queue, under):
        unit = typed()
        under(KCL_NO_CACHE="1")
        run = unit.executor(queue)
        assert type(run) is not executor.Executor
        assert doubles(run, queue)


class TestEntryPoints:
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_by_name(self, queue):
        """Each entry point computes what is its own, in a launch and through an executor."""
        for _ in range(2):
            unit = two()
            for name, factor in (("doubled", 2), ("tripled", 3)):
                for launch in (
                    unit.executor(queue, entrypoint=name),
                    functools.partial(unit, entrypoint=name),
                    unit.with_entrypoints(name).executor(queue),
                ):
                    assert np.array_equal(launch(queue, a=FIRST)[1][0], factor * FIRST)
        assert waits(two())

    @pytest.mark.parametrize("run", range(2))
    @pytest.mark.parametrize("name", [None, "nowhere"])
    def test_errors_are_raised_where_loopy_raises_them(self, queue, name, run):
        for _ in range(run + 1):
            unit = two()
        assert waits(unit) is bool(run)
        with pytest.raises(Exception) as expected:
            two(loopy).executor(queue, entrypoint=name)
        with pytest.raises(type(expected.value)) as found:
            unit.executor(queue, entrypoint=name)
        assert str(found.value) == str(expected.value)
        assert doubles(unit.executor(queue, entrypoint="doubled"), queue)

    def test_no_argument_of_a_launch(self, queue):
        """An executor is of one entry point: naming another at the launch is an error, as for loopy's."""
        for module in (loopy, lp):
            with pytest.raises((KeyError, TypeError), match="entrypoint"):
                typed(module).executor(queue)(queue, a=FIRST, entrypoint="doubled")


def test_the_unit_of_a_long_chain(context):
    unit, names = typed(), [f"i_{number}" for number in range(1200)]
    for before, after in zip(["i", *names], names, strict=False):
        unit = lp.rename_iname(unit, before, after)
    assert unit.executor(context).t_unit is unit
