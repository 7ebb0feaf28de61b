"""kcl.build.leases: programs of dropped Kernels are let go of, oldest first, and those of living ones never."""

import gc
import threading

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from at_once import at_once
from many_kernels import SIZE, added

import kcl
from kcl import drivers
from kcl.build import leases
from kcl.build.leases import launcher_of
from kcl.cache.lead import Lead
from kcl.generate.origins.recorded import RecordedOrigin
from kcl.generate.stage import CallValues
from kcl.line import Line
from kcl.record.declarations import NOTHING, RecipeCall

pytestmark = pytest.mark.one_platform


@pytest.fixture
def small(queue):
    """The bytes of a program that was built from source."""
    return drivers.of(queue.context).memory(0)


@pytest.fixture
def launch(queue):
    """Launch a Kernel, a new one where none is given, and return what it added."""

    def launch(number, kernel=None, queue=queue):
        x = cl_array.zeros(queue, SIZE, np.float32)
        (kernel or added(number))(queue, x=x)
        assert x.get().tolist() == [number] * SIZE

    return launch


def programs(queue):
    """Return the number of living programs of a queue's context."""
    gc.collect()
    return len(queue._kcl_bindings.build._programs)


class TestBound:
    def test_dropped(self, queue, launch, small, monkeypatch):
        """As many programs of dropped Kernels are kept as the bound allows, those that were dropped last."""
        monkeypatch.setattr(leases, "KEPT_BYTES", 2 * small)
        launch(0)
        kept = [queue._kcl_bindings.launchers.copy()]
        for number in range(1, 6):
            launch(number)
            kept.append(queue._kcl_bindings.launchers.copy())
        assert [len(one) for one in kept] == [1, 2, 3, 3, 3, 3]
        assert kept[-1].keys().isdisjoint(kept[2].keys() - kept[4].keys())
        del kept
        assert programs(queue) == 3
        launch(0)  # and again, from the entry or from source

    def test_living(self, queue, launch, monkeypatch):
        """A Kernel that lives keeps its program, whatever is dropped; so does one of two Kernels of one code."""
        monkeypatch.setattr(leases, "KEPT_BYTES", 0)
        first, same = added(0), added(0)
        for number, kernel in ((0, first), (0, same), (1, None), (2, None)):
            launch(number, kernel)
        launchers = queue._kcl_bindings.launchers
        (place,) = [place for place in launchers if place[0] in first._line._leases]
        launcher = launchers[place]
        del same
        launch(3)
        launch(0, first)
        assert launchers[place] is launcher
        del first, launcher
        launch(4)
        assert place not in launchers
        assert programs(queue) == 1

    def test_used_again(self, queue, launch, small, monkeypatch):
        """A code that is used again is as young as it was then, and loads nothing again."""
        monkeypatch.setattr(leases, "KEPT_BYTES", 2 * small)
        for number in (0, 1):
            launch(number)
        place = next(iter(queue._kcl_bindings.launchers))
        launcher = queue._kcl_bindings.launchers[place]
        for number in (0, 2, 3):
            launch(number)
        assert queue._kcl_bindings.launchers.get(place) is launcher

    def test_everywhere(self, queue, launch, monkeypatch):
        """The launchers of a code are let go of on every queue and for every thread."""
        monkeypatch.setattr(leases, "KEPT_BYTES", 0)
        other = cl.CommandQueue(queue.context)
        kernel = added(0)
        launch(0, kernel)
        launch(0, kernel, other)
        thread = threading.Thread(target=launch, args=(0, kernel))
        thread.start()
        thread.join()
        digests = [place[0] for bindings in (queue, other) for place in bindings._kcl_bindings.launchers]
        assert len(digests) == 3
        del kernel
        launch(1)
        assert len(queue._kcl_bindings.launchers) == 1
        assert not other._kcl_bindings.launchers

    def test_threads(self, queue, monkeypatch):
        """Threads that make, launch and drop the same few Kernels compute the right numbers."""
        monkeypatch.setattr(leases, "KEPT_BYTES", 0)
        faults = []

        def work(first):
            own = cl.CommandQueue(queue.context)
            x = cl_array.zeros(own, SIZE, np.float32)
            for number in range(30):
                x.fill(0)
                added((first + number) % 3)(own, x=x)
                if x.get().tolist() != [(first + number) % 3] * SIZE:
                    faults.append(number)

        at_once(work, 3)
        assert faults == []


def doubled():
    """Return OpenCL C that doubles."""
    code = "kernel void f(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = 2 * x[i]; }"
    arguments = [kcl.Array("x", "float32", "(4,)"), kcl.Array("y", "float32", "(4,)", "out")]
    return kcl.Source(code, entry="f", arguments=arguments, global_size="(4,)")


def two(context):
    """Return two launchers of one program."""
    line = Line(RecordedOrigin(RecipeCall("doubled", doubled, {}, NOTHING)), doubled)
    with Lead("doubled") as lead:
        ready = line.code(context, CallValues({}), lead)
        program = line.bound(context, ready, lead).program
    return launcher_of(ready, program), launcher_of(ready, program)


class TestLauncher:
    def test_kernels_are_its_own(self, context):
        """Two launchers of one program have kernel objects of their own: threads do not mix their arguments."""
        one, other = two(context)
        assert one.program is other.program
        assert one.kernels.f is not other.kernels.f

    def test_required(self, context):
        """The arrays that every call must give are those that are no outputs."""
        assert two(context)[0].required == {"x"}
