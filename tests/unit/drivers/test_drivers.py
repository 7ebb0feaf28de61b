"""kcl.drivers: the table of drivers, asked by the name of a platform."""

import sys

import pytest

from kcl import drivers
from kcl.cache.faults import CacheWarning
from kcl.drivers.nvidia import Nvidia
from kcl.drivers.pocl import Pocl
from kcl.programs.driver import Driver


def test_table():
    """NVIDIA and PoCL have a driver of their own, any other platform the plain one; each is made once."""
    assert type(drivers.named("NVIDIA CUDA")) is Nvidia
    assert type(drivers.named("Portable Computing Language")) is Pocl
    assert type(drivers.named("Intel(R) OpenCL")) is type(drivers.named("")) is Driver
    assert drivers.named("NVIDIA CUDA") is drivers.named("NVIDIA CUDA")


@pytest.mark.faults
def test_a_file_that_cannot_be_read(monkeypatch):
    """A platform whose file cannot be read has a plain driver, with a warning."""
    monkeypatch.setitem(drivers.TABLE, "Of the future", ("kcl.drivers.future", "Future"))
    with pytest.warns(CacheWarning, match=r"kcl\.drivers\.future"):
        assert type(drivers.named("Of the future")) is Driver
    drivers.named.cache_clear()


def test_the_driver_of_a_context_is_the_one_of_its_platform(context, platform_name):
    assert (type(drivers.of(context)) is Pocl) == (platform_name == "pocl")


def test_a_program_on_a_plain_driver_imports_no_file_of_another_one(child):
    code = """
        import json, sys
        from kcl import drivers
        drivers.named("Intel(R) OpenCL")
        print(json.dumps([module for module, _driver in drivers.TABLE.values() if module in sys.modules]))
        """
    assert child.json(code) == []
    assert "kcl.drivers.nvidia" in sys.modules
