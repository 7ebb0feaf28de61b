"""kcl.drivers.pocl.driver: PoCL's driver, whose entries a helper completes."""

import os
import time
from types import SimpleNamespace

import pytest

from kcl import caches
from kcl.build import identity
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


def test_waits_within_bounds(bench, monkeypatch):
    """A run waits for two seconds in all beyond the progress of the helper, then no more.

    The helper that does not do its work is this process.
    """
    monkeypatch.setattr("kcl.base.settings.option.folder", lambda _name: bench.folder)
    slots = [SimpleNamespace(key=bench.key(number), address=bench.address(number)) for number in (0, 1)]
    for number in (0, 1):
        bench.queued(number)
    with bench.locked():
        started = time.monotonic()
        assert Pocl().awaited(slots[0]) is False
        assert time.monotonic() - started >= 2.0
        assert driver._state().left <= 0
        assert Pocl().awaited(slots[1]) is False


class SeenDevice:
    """A device of PoCL as pyopencl shows it, with another name or version."""

    def __init__(self, device, **seen):
        self._device, self._seen = device, seen

    def __getattr__(self, name):
        return self._seen[name] if name in self._seen else getattr(self._device, name)


class TestIdentity:
    """The marketing name of a CPU is in no key, and in no folder."""

    @pytest.fixture(autouse=True)
    def _pocl_only(self, platform_name):
        if platform_name != "pocl":
            pytest.skip("about PoCL")

    def test_marketing_name(self, device):
        """Another marketing name is the same identity and folder; LLVM's name of the CPU names the folder."""
        driver, other = Pocl(), SeenDevice(device, name="pthread-Another(R) Processor")
        assert driver.identity(other) == driver.identity(device)
        assert "device" not in dict(driver.identity(device))
        cpu = device.version.rpartition("linux-gnu-")[2]
        assert driver.folder(other) == driver.folder(device) == f"pocl-{cpu}"

    def test_cpu_and_features(self, device, monkeypatch):
        """Another CPU of LLVM, the other sort of CPU device, and other features are another identity."""
        driver = Pocl()
        before = driver.identity(device)
        other = SeenDevice(device, version="OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-skylake-avx512")
        assert driver.identity(other) != before
        assert driver.folder(other) == "pocl-skylake-avx512"
        basic = SeenDevice(device, version=device.version.replace("pthread-", "basic-"))
        assert driver.identity(basic) != before
        monkeypatch.setattr(identity, "cpu_features", lambda: "sse2")
        assert driver.identity(device) != before

    def test_other_devices(self, device):
        """A device whose version names no CPU keeps its name in key and folder."""
        driver, other = Pocl(), SeenDevice(device, version="OpenCL 3.0 PoCL HSTR: CUDA-sm_80")
        assert dict(driver.identity(other))["device"] == device.name
        assert driver.folder(other) == device.name
