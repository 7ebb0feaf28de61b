"""Drivers: a class for each OpenCL implementation that needs one, chosen by the name of the platform."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from kcl.cache import layers
from kcl.programs.driver import Driver, Progress

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.programs.open_jobs import OpenJobs

# Platform name -> module and class. Any other platform gets a plain `Driver`.
TABLE = {
    "NVIDIA CUDA": ("kcl.drivers.nvidia", "Nvidia"),
    "Portable Computing Language": ("kcl.drivers.pocl", "Pocl"),
}


def of(context: cl.Context) -> Driver:
    """Return the driver of a context."""
    return named(context.devices[0].platform.name)


@functools.cache
def named(platform: str) -> Driver:
    """Return the driver of a platform; a plain one if its module cannot be imported."""
    module, name = TABLE.get(platform, ("", ""))
    try:
        driver: Driver = getattr(importlib.import_module(module), name)() if module else Driver()
        return driver
    except (ImportError, OSError) as error:
        layers.binary().fault(f"read {module}", error)
        return Driver()


def every() -> list[Driver]:
    """Return all drivers in the table, for commands that ask each of them."""
    return [named(platform) for platform in TABLE]


def pending() -> OpenJobs:
    """Return the entries that wait for a helper; raises a store's errors. Only one driver has a helper."""
    from kcl.programs.open_jobs import OpenJobs

    return next(filter(None, [driver.pending() for driver in every()]), OpenJobs())


def flush(seconds: float = 600.0, progress: Progress | None = None) -> bool:
    """Have the open entries completed, and wait for that; return False if they are not complete in time."""
    return all(driver.flush(seconds, progress) for driver in every())


def quiet(folder: str, seconds: float = 60.0) -> bool:
    """Drop the open entries below a kcl folder and end the helper; return False if it still runs and may add entries."""
    return all(driver.quiet(folder, seconds) for driver in every())


def own_files(binary: bytes) -> dict[str, bytes]:
    """Return the files inside a binary of any driver; raises ValueError if it is damaged."""
    return next(filter(None, [driver.files(binary) for driver in every()]), {})
