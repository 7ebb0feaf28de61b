"""kcl.drivers.plain: an OpenCL driver that hands out a binary at once."""

from __future__ import annotations

from types import SimpleNamespace

import pyopencl as cl

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.drivers import identity
from kcl.drivers.plain import Plain


def test_completed(context):
    """An entry is complete with the binary that the driver gives out for the device of its slot."""
    program = cl.Program(context, "kernel void f(global int *a) { a[0] = 1; }").build()
    entry = Entry(Key([("a", "1")]), {"seconds": 1.0}, {"source.cl": b"text"})
    done = Plain().completed(program, SimpleNamespace(device=context.devices[0]), entry)
    assert done.parts == {"source.cl": b"text", "binary": program.get_info(cl.program_info.BINARIES)[0]}
    assert done.metadata == {"seconds": 1.0, "complete": True}
    assert entry.parts == {"source.cl": b"text"}


def test_identity(device):
    """The parts of the key are those of the device."""
    assert Plain().identity(device) == identity.identity(device)


def test_needs_nothing():
    """It adds no options and no mark, waits for nobody, and makes nothing ahead."""
    driver = Plain()
    assert (driver.added_options(), driver.mark('#include "a.h"', lambda: "x"), driver.described(None)) == ("", "", {})
    assert driver.awaited(None, "f") is False
    assert driver.prebuilt(None, []) is None
