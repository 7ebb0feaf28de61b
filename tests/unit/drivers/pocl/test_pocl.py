"""kcl.drivers.pocl: PoCL's driver, whose entries a helper completes."""

import random

import numpy as np
import pyopencl as cl
import pytest
import slow
from elementwise import elementwise
from many_programs import SPOILS, SUMS

import kcl
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.drivers import pocl as pocl_driver
from kcl.drivers.pocl import Pocl
from kcl.programs import driver as devices


def test_added_options(monkeypatch):
    """What `POCL_EXTRA_BUILD_FLAGS` adds to the options of every program counts."""
    assert Pocl().added_options() == ""
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-fast-relaxed-math")
    assert Pocl().added_options() == "-cl-fast-relaxed-math"


@kcl.kernel
def fifth():
    return elementwise("fifth", "x[i] += 5;", x="inout")


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
        version = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-skylake-avx512"
        assert driver.identity(SeenDevice(device, version=version)) != before
        assert driver.folder(SeenDevice(device, version=version)) == "pocl-skylake-avx512"
        version = device.version.replace("pthread-", "basic-").replace(": cpu-", ": basic-")
        assert driver.identity(SeenDevice(device, version=version)) != before
        monkeypatch.setattr(devices, "cpu_features", lambda: "sse2")
        assert driver.identity(device) != before

    def test_other_devices(self, device):
        """A device whose version names no CPU keeps its name in key and folder."""
        driver, other = Pocl(), SeenDevice(device, version="OpenCL 3.0 PoCL HSTR: CUDA-sm_80")
        assert dict(driver.identity(other))["device"] == device.name
        assert driver.folder(other) == device.name

    @pytest.mark.parametrize("name", ["pthread", "basic", "cpu", "cpu-minimal", "cpu-tbb"])
    def test_entries_are_stored_for_pocls_cpu_devices_on_any_system(self, device, name):
        for system in ("x86_64-pc-linux-gnu-znver3", "arm64-apple-darwin24-cyclone"):
            version = f"OpenCL 3.0 PoCL HSTR: {name}-{system}"
            assert Pocl().untried(SeenDevice(device, version=version)) == ""

    def test_untried(self, device, monkeypatch, looks):
        """A device of PoCL's that is no CPU has the plain line: no key, no binary, no job, and a bypass says why."""
        monkeypatch.setattr(pocl_driver, "_cpu", lambda _device: None)
        asked = dict(pocl_driver._state().helper.asked)
        queue = cl.CommandQueue(cl.Context([device]))
        _event, (x,) = fifth()(queue, x=np.zeros(4, np.float32))
        assert x.tolist() == [5.0] * 4
        words = f"off: kcl has not been tried with PoCL's device {device.name}"
        assert ("binary", "bypass", words) in [(one.layer, *one[3:5]) for one in looks]
        assert pocl_driver._state().helper.asked == asked


CACHES = 300  # that are damaged


def contents(cache):
    """Return what counts in PoCL's cache."""
    found = [path for path in cache.rglob("*") if path.suffix in (".so", ".bc") and path.is_file()]
    return {str(path.relative_to(cache)): path.read_bytes() for path in found}


def spoil(dice, cache, good, most):
    """Damage some of the files, each in its own way; return which and how."""
    done = [
        (name, dice.randrange(len(SPOILS)))
        for name in dice.sample(sorted(good), dice.randint(1, most))
    ]
    for name, kind in done:
        SPOILS[kind](dice, cache / name, good[name])
    return done


@pytest.mark.usefixtures("pocl")
class TestCaches:
    @pytest.mark.parametrize(
        "number",
        [pytest.param(0), *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 11))],
    )
    @pytest.mark.slow
    def test_no_dead_run(self, run, child, number):
        """Whatever lies in PoCL's cache, runs of programs with entries end well, compute the same, and repair it."""
        cache = child.cache / "pocl" / "kcache"
        for each in range(2 if number == 0 else CACHES // 10):
            if each == 0:
                assert run().returncode == 0
                good = contents(cache)
            seed = f"{slow.seed()} {number} {each}"
            done = spoil(random.Random(seed), cache, good, len(good) if each % 2 else 3)
            ended = run()
            assert ended.returncode == 0, (seed, done, ended.returncode, ended.stderr)
            assert ended.stdout.strip() == str(SUMS), (seed, done)
            assert contents(cache) == good, (seed, done)

    def test_bytes_of_pocl(self, run, child):
        """Nothing is written where the cache holds what the entries hold, or nothing at all."""
        times = []
        for _ in range(2):
            assert run().stdout.strip() == str(SUMS)
            code = (child.cache / "pocl" / "kcache").rglob("*.so")
            times.append({path: path.stat().st_mtime_ns for path in code})
        assert times[0] == times[1]


@pytest.mark.one_platform
def test_another_container(tmp_path, monkeypatch):
    """A binary of another PoCL, or none at all, is left to the driver; nothing is raised."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    odd = b"poclbin\0" + bytes(8) + b"\x08" + bytes(70)
    for binary in (b"", b"poclbin\0" + bytes(200), b"\x7fELF" + bytes(10), odd):
        Pocl().loading(Entry(Key([("source", "none")]), {}, {"binary": binary}))
    assert list(tmp_path.iterdir()) == []
