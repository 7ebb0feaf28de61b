"""kcl.workers.worker: the process of a worker."""

from __future__ import annotations

from multiprocessing import reduction

import prepare_recipes
import pytest

import kcl
from kcl.workers import crew, worker


class TestContext:
    def test_same_devices(self, context):
        """The context has the devices of the parent's."""
        assert worker._context(crew._devices(context)).devices == context.devices

    @pytest.mark.one_platform
    def test_another_device(self, context):
        """Where another device lies at a place nothing is built for it."""
        devices = [(platform, place, "another") for platform, place, _name in crew._devices(context)]
        with pytest.raises(LookupError, match="another is not found"):
            worker._context(devices)


class TestPrepare:
    @pytest.mark.one_platform
    def test_from_bytes(self, context):
        """A kernel that was sent is stored."""
        blob = reduction.ForkingPickler.dumps((prepare_recipes.filled(9), {}))
        worker._prepare(bytes(blob), context)
        assert kcl.stats()["generator"]["misses"] == 1
        assert prepare_recipes.filled(9).is_stored()
