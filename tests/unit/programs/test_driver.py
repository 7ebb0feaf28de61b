"""kcl.programs.driver: what the build stage asks of a driver."""

import ctypes
import os
from types import SimpleNamespace

import pyopencl as cl
import pytest

from kcl import drivers
from kcl.base import process
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.code import ProgramText
from kcl.programs import compilation
from kcl.programs import driver as devices
from kcl.programs.driver import Driver
from kcl.programs.stage import Build, _log


@pytest.mark.parametrize("platform", [*drivers.TABLE, "another platform"])
def test_every_driver_answers(platform):
    """Each driver of the table, and that of any other platform, is one of the contract."""
    assert isinstance(drivers.named(platform), Driver)


def test_completed(context):
    """An entry is complete with the binary that the driver gives out for the device of its slot."""
    program = cl.Program(context, "kernel void f(global int *a) { a[0] = 1; }").build()
    entry = Entry(Key([("a", "1")]), {"seconds": 1.0}, {"source.cl": b"text"})
    done = Driver().completed(program, SimpleNamespace(device=context.devices[0]), entry)
    (binary,) = program.get_info(cl.program_info.BINARIES)
    assert done.parts == {"source.cl": b"text", "binary": binary}
    assert done.metadata == {"seconds": 1.0, "complete": True}
    assert entry.parts == {"source.cl": b"text"}


def test_needs_nothing():
    """It adds no options and no mark, waits for nobody, and has nothing for tools."""
    driver = Driver()
    assert driver.added_options() == driver.mark('#include "a.h"', lambda: "x") == ""
    assert driver.described(None) == driver.files(b"") == {}
    assert driver.awaited(None) is False
    assert driver.pending() is None
    assert list(driver.damaged(["."])) == []
    assert driver.flush(0, None)
    assert driver.quiet("", 0)


TEXT = ProgramText("add", "kernel void add(global float *x) {} // \ud800", ("-DA=1",), ("add",))


def test_log_names_no_directory(context, tmp_path):
    """The log names no place of an include directory; a later run reads its own there."""
    text = TEXT._replace(options=(f"-I{tmp_path}",))
    driver = drivers.of(context)
    (slot,) = Build(context, driver).slots(text)
    log = "Options: -I{0} -Iother\n{0}/seven.h:2:2: warning"
    entry = compilation.described(driver, text, slot, log.format(tmp_path))
    assert entry.parts["build.log"].decode() == log.format("<include 0>")
    assert _log(entry, slot) == log.format(tmp_path)


MARKS = {"pocl": "pocl", "intel": "intelocl", "nvidia": "nvidia"}


class TestIdentity:
    def test_names(self, device):
        """Platform, device, driver with the build of its library, and for a processor its instruction sets."""
        parts = dict(devices.identity_of(device))
        assert parts["platform"] == device.platform.name
        assert parts["platform version"] == device.platform.version
        assert parts["device"] == device.name
        assert parts["driver"] == device.driver_version
        assert parts["driver library"] not in ("", "unknown")
        if device.type & cl.device_type.CPU:
            assert "sse2" in parts["cpu features"].split() or "fma" not in parts["cpu features"]
        assert parts["address bits"] == str(device.address_bits)

    def test_no_path_no_user_no_number_of_threads_no_directory_is_in_it(self, device, monkeypatch):
        before = Key(devices.identity_of(device))
        pocl = ("POCL_MAX_PTHREAD_COUNT", "POCL_MEMORY_LIMIT", "POCL_CACHE_DIR")
        for variable in (*pocl, "HOME", "USER", "LOGNAME"):
            monkeypatch.setenv(variable, "3")
        assert Key(devices.identity_of(device)) == before
        assert not any("/" in part.value for part in before.parts if part.name == "driver library")

    @pytest.mark.parametrize(
        "variable",
        ["POCL_EXTRA_BUILD_FLAGS", "POCL_WORK_GROUP_METHOD", "CL_CONFIG_CPU_TARGET_ARCH"],
    )
    def test_code_variables(self, monkeypatch, variable):
        """A variable that changes generated code is a part, as the driver has read it: PoCL keeps the first value."""
        assert devices.variables() == ()
        monkeypatch.setenv(variable, "one")
        assert devices.variables() == ((f"variable {variable}", "'one', set by the program"),)
        monkeypatch.setenv(variable, "two")
        assert devices.variables() == ((f"variable {variable}", "'one', set by the program"),)


class TestLibrary:
    def test_path(self, device, platform_name):
        """The dynamic linker names the file of the driver itself, not the loader's."""
        path = devices._library_path(device.platform)
        assert os.path.isfile(path)
        assert MARKS[platform_name] in os.path.basename(path)

    def test_tag(self, device):
        """A tag in the place of the first function, as in PoCL 7.1, hides no file."""
        table = ctypes.c_void_p.from_address(device.platform.int_ptr).value
        second = ctypes.c_void_p.from_address(table + ctypes.sizeof(ctypes.c_void_p)).value
        tagged = (ctypes.c_void_p * 2)(0x4F50454E434C3331, second)
        start = ctypes.c_void_p(ctypes.addressof(tagged))
        seen = SimpleNamespace(int_ptr=ctypes.addressof(start))
        assert devices._library_path(seen) == devices._library_path(device.platform)

    def test_build(self, tmp_path):
        """A library of another size, or with another byte at its beginning or end, is another build."""
        path, content = tmp_path / "library", bytes(1 << 20)
        edited = (b"\1" + content[1:], content[:-100_000] + b"\1" * 100_000)
        seen = set()
        for other in (content, content + b"\0", *edited, b""):
            path.write_bytes(other)
            seen.add(devices.build_of(str(path)))
        assert len(seen) == 5


def test_features(tmp_path, monkeypatch):
    """One instruction set less is another processor; what changes from boot to boot or core to core is not."""
    monkeypatch.setattr(process, "PROC", str(tmp_path))
    assert devices.cpu_features() == os.uname().machine  # where the system does not tell
    block = "processor\t: 0\ncpu MHz\t: {}\nflags\t\t: fpu {} hypervisor\n\n"
    for speed, flags, features in (
        ("2000.1", "sse2 avx avx2 fma", "avx avx2 fma sse2"),
        ("2500.2", "fma avx2 avx sse2 nopl", "avx avx2 fma sse2"),
        ("2000.1", "sse2 avx fma", "avx fma sse2"),
    ):
        (tmp_path / "cpuinfo").write_text(block.format(speed, flags) * 2)
        assert devices.cpu_features() == features
