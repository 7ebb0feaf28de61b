"""kcl.workers.crew: what is sent to workers. `test_prepare` has them work."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from prepare_recipes import filled

import kcl
from kcl.base.settings import option
from kcl.drivers.pocl.jobs import JobQueue
from kcl.workers import crew
from kcl.workers.item import PreparationItem


class TestDtypes:
    @pytest.mark.one_platform
    def test_no_content(self, context):
        """Of arrays and scalars the dtypes are sent, of Python numbers nothing, of parts each."""
        x = cl_array.zeros(cl.CommandQueue(context), 3, np.float32)
        parts = np.empty(2, object)
        parts[:] = [x, np.int32(1)]
        assert crew._dtypes(x) == crew._dtypes(np.float32(1)) == np.float32
        assert crew._dtypes(np.float64) is np.float64
        assert crew._dtypes(3) is None
        assert crew._dtypes((x, 2)) == (np.float32, None)
        assert crew._dtypes(parts).tolist() == [np.float32, np.int32]


class TestDevices:
    def test_places(self, context):
        """A device is found again by its place."""
        for device, (platform, place, name) in zip(context.devices, crew._devices(context), strict=True):
            found = cl.get_platforms()[platform].get_devices()[place]
            assert (found, name) == (device, device.name)


class TestHelper:
    def test_after_the_workers(self, context, platform_name):
        """No helper shares the processors with the workers: it completes their entries as they end."""
        if platform_name != "pocl":
            pytest.skip("only PoCL's entries are completed by a helper")
        queue, seen = JobQueue(option.folder("kcl")), []
        items = [PreparationItem(filled(number), {}) for number in range(6)]
        left = crew.work(items, context, 2, lambda done, _: seen.append((done, queue.has_helper())))
        assert left == []
        assert seen == [(done, False) for done in range(1, 7)]
        assert kcl.flush()
        assert [entry.kernel for entry in kcl.entries("binary")] == ["filled"] * 6

    @pytest.mark.parametrize("how", ["killed", "interrupted"])
    def test_that_die(self, context, platform_name, monkeypatch, how):
        """What a worker prepared is completed also where that worker is killed, or the user interrupts the parent."""
        if platform_name != "pocl":
            pytest.skip("only PoCL's entries are completed by a helper")
        workers, init = [], crew.Worker.__init__

        def noted(worker, setup):
            init(worker, setup)
            workers.append(worker)

        def said(done, _kernel):
            if done == 4 and how == "interrupted":
                raise KeyboardInterrupt
            if done == 4:
                for worker in workers:
                    worker.process.kill()

        monkeypatch.setattr(crew.Worker, "__init__", noted)
        items = [PreparationItem(filled(number), {}) for number in range(8)]
        if how == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                crew.work(items, context, 2, said)
        else:
            assert 1 <= len(crew.work(items, context, 2, said)) <= 4
        assert kcl.flush()
        assert len(kcl.entries("binary")) >= 4

    def test_promotion_off(self, context, monkeypatch):
        """What workers prepared is completed whatever is to become of the programs of launches."""
        monkeypatch.setenv("KCL_PROMOTE", "off")
        assert (
            crew.work([PreparationItem(filled(number), {}) for number in range(4)], context, 2, lambda *_: None) == []
        )
        assert kcl.flush()
        assert [entry.kernel for entry in kcl.entries("binary")] == ["filled"] * 4
