"""kcl.programs.driver: what the build stage asks of a driver."""

from types import SimpleNamespace

import pyopencl as cl
import pytest

from kcl import drivers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.code import ProgramText
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
    assert done.parts == {
        "source.cl": b"text",
        "binary": program.get_info(cl.program_info.BINARIES)[0],
    }
    assert done.metadata == {"seconds": 1.0, "complete": True}
    assert entry.parts == {"source.cl": b"text"}


def test_needs_nothing():
    """It adds no options and no mark, waits for nobody, and has nothing for tools."""
    driver = Driver()
    assert (
        driver.added_options(),
        driver.mark('#include "a.h"', lambda: "x"),
        driver.described(None),
    ) == ("", "", {})
    assert driver.awaited(None, "f") is False
    assert driver.pending() is None
    assert (list(driver.damaged(["."])), driver.files(b"")) == ([], {})
    assert driver.flush(0, None)
    assert driver.quiet("", 0)


TEXT = ProgramText("add", "kernel void add(global float *x) {} // \ud800", ("-DA=1",), ("add",))


def described(context):
    """Return the entry of the text on a context."""
    driver = drivers.of(context)
    (slot,) = Build(context, driver).slots(TEXT)
    return slot, driver.entry(TEXT, slot, "a log", 0.5)


def test_log_names_no_directory(context, tmp_path):
    """The log names no place of an include directory; a later run reads its own there."""
    text = TEXT._replace(options=(f"-I{tmp_path}",))
    driver = drivers.of(context)
    (slot,) = Build(context, driver).slots(text)
    log = f"Options: -I{tmp_path} -Iother\n{tmp_path}/seven.h:2:2: warning"
    entry = driver.entry(text, slot, log)
    assert (
        entry.parts["build.log"].decode()
        == "Options: -I<include 0> -Iother\n<include 0>/seven.h:2:2: warning"
    )
    assert _log(entry, slot) == log
