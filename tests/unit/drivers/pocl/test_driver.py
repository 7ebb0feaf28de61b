"""kcl.drivers.pocl.driver: PoCL's driver, whose entries a helper completes."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

from kcl import caches
from kcl.cache import layers
from kcl.cache.key import Key
from kcl.drivers.pocl import driver
from kcl.drivers.pocl.driver import Pocl

SLOT = SimpleNamespace(options=SimpleNamespace(text="-DA=1"), key=Key([("a", "1")]))


def test_added_options(monkeypatch):
    """What `POCL_EXTRA_BUILD_FLAGS` adds to the options of every program counts."""
    assert Pocl().added_options() == ""
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-fast-relaxed-math")
    assert Pocl().added_options() == "-cl-fast-relaxed-math"


def test_described(monkeypatch):
    """The helper is told the store, the options and the folder of PoCL's own cache, or that this is off."""
    described = Pocl().described(SLOT)
    assert described["binaries"] == layers.binary().place
    assert described["build_options"] == "-DA=1"
    assert described["pocl_cache"] == os.path.abspath(caches.directory_in_use("pocl"))
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
    assert Pocl().described(SLOT)["pocl_cache"] is None


def test_completed():
    """PoCL is not asked for a binary in the user's process."""
    assert Pocl().completed(None, SLOT, None) is None


def test_waits_within_bounds(bench, monkeypatch):
    """A run waits for two seconds in all beyond the progress of the helper, then no more.

    The helper that does not do its work is this process.
    """
    monkeypatch.setattr("kcl.base.settings.option.folder", lambda _name: bench.folder)
    slots = [SimpleNamespace(key=bench.key(number)) for number in (0, 1)]
    for number in (0, 1):
        bench.queued(number)
    with bench.locked():
        started = time.monotonic()
        assert Pocl().awaited(slots[0]) is False
        assert time.monotonic() - started >= 2.0
        assert driver._state().left <= 0
        assert Pocl().awaited(slots[1]) is False


def test_nobody_to_wait_for():
    """Where no job waits there is nobody to wait for."""
    assert Pocl().awaited(SLOT) is False
