"""kcl.workers.crew: what is sent to workers, and what workers do with it. `test_prepare` has them work."""

from __future__ import annotations

from multiprocessing import reduction

import numpy as np
import prepare_recipes
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from prepare_recipes import filled

import kcl
from kcl.base.settings import option
from kcl.drivers import devices
from kcl.drivers.pocl.jobs import JobQueue
from kcl.workers import crew
from kcl.workers.crew import PreparationItem


def test_label():
    """An item has the label of its kernel, with the parameters."""
    assert PreparationItem(filled(2), {}).label == "filled(number=2)"


@pytest.fixture
def on_pocl(platform_name):
    """Skip where entries are not completed by a helper."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")


def items(count):
    """Return kernels to be prepared."""
    return [PreparationItem(filled(number), {}) for number in range(count)]


@pytest.mark.one_platform
def test_no_content(context):
    """Of arrays and scalars the dtypes are sent, of Python numbers nothing, of parts each."""
    x = cl_array.zeros(cl.CommandQueue(context), 3, np.float32)
    parts = np.empty(2, object)
    parts[:] = [x, np.int32(1)]
    assert crew._dtypes(x) == crew._dtypes(np.float32(1)) == np.float32
    assert crew._dtypes(np.float64) is np.float64
    assert crew._dtypes(3) is None
    assert crew._dtypes((x, 2)) == (np.float32, None)
    assert crew._dtypes(parts).tolist() == [np.float32, np.int32]


@pytest.mark.one_platform
def test_from_bytes(context):
    """A kernel that was sent is stored."""
    blob = bytes(reduction.ForkingPickler.dumps((prepare_recipes.filled(9), {})))
    crew.work_on(devices.places_of(context), blob)
    assert kcl.stats()["generator"]["misses"] == 1
    assert prepare_recipes.filled(9).is_stored()


@pytest.mark.usefixtures("on_pocl")
class TestHelper:
    @pytest.mark.parametrize("when", ["background", "off"])
    def test_after_the_workers(self, context, monkeypatch, when):
        """No helper shares the processors with the workers; their entries are completed whatever `KCL_PROMOTE` says."""
        monkeypatch.setenv("KCL_PROMOTE", when)
        queue, seen = JobQueue(option.folder("kcl")), []
        assert crew.work(items(6), context, 2, lambda done, _: seen.append((done, queue.has_helper()))) == []
        assert seen == [(done, False) for done in range(1, 7)]
        assert kcl.flush()
        assert [entry.kernel for entry in kcl.entries("binary")] == ["filled"] * 6

    def test_interrupted(self, context):
        """What a worker prepared is completed also where the user interrupts the parent."""

        def said(done, _kernel):
            if done == 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            crew.work(items(8), context, 2, said)
        assert kcl.flush()
        assert len(kcl.entries("binary")) >= 4
