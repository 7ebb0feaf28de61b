"""kcl.drivers: the table of drivers, asked by the name of a platform."""

import sys

import pytest

from kcl import drivers
from kcl.cache.faults import CacheWarning
from kcl.drivers.nvidia import Nvidia
from kcl.drivers.pocl import Pocl
from kcl.programs.driver import Driver


def test_table():
    """NVIDIA and PoCL have a driver of their own, any other platform the plain one."""
    assert type(drivers.named("NVIDIA CUDA")) is Nvidia
    assert type(drivers.named("Portable Computing Language")) is Pocl
    assert type(drivers.named("Intel(R) OpenCL")) is type(drivers.named("")) is Driver


def test_one_driver_per_platform():
    """A driver is made once in a process."""
    assert drivers.named("NVIDIA CUDA") is drivers.named("NVIDIA CUDA")


@pytest.mark.faults
def test_a_file_that_cannot_be_read(monkeypatch):
    """A platform whose file cannot be read has a plain driver, with a warning."""
    monkeypatch.setitem(drivers.TABLE, "Of the future", ("kcl.drivers.future", "Future"))
    with pytest.warns(CacheWarning, match=r"kcl\.drivers\.future"):
        assert type(drivers.named("Of the future")) is Driver
    drivers.named.cache_clear()


def test_of_a_context(context, platform_name):
    """The driver of a context is the one of its platform."""
    assert (type(drivers.of(context)) is Pocl) == (platform_name == "pocl")


def test_other_drivers_are_not_imported(child):
    """A program on a plain driver imports no file of another one."""
    code = """
        import json, sys
        from kcl import drivers
        drivers.named("Intel(R) OpenCL")
        print(json.dumps([module for module, _driver in drivers.TABLE.values() if module in sys.modules]))
        """
    assert child.json(code) == []
    assert "kcl.drivers.nvidia" in sys.modules
