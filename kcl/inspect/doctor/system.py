"""Checks of the system: platforms, devices, packages and their versions."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib import metadata, util

from kcl import caches
from kcl.base import settings
from kcl.caches import usable
from kcl.inspect.doctor.finding import NOTE, OK, PROBLEM, WARNING, Finding

_NEWER_POCL = (
    "take a PoCL with a newer LLVM (conda install -c conda-forge pocl); with that of the wheel, run your program by "
    "python tools/with_pocl.py of a checkout of kcl"
)
_POCL = "pip install pocl-binary-distribution (Linux x86-64), or install the OpenCL driver of your device's vendor"

# Two distributions, the versions from which on they fail together, and the fault.
WRONG_TOGETHER = (
    (
        ("loopy", (2025, 2), (2026,)),
        ("islpy", (2026,), ()),
        "prefetches and tight bounds fail: 'Aff' object has no attribute 'is_equal'",
        'pip install "islpy>=2025.2,<2026"',
    ),
    (
        ("pyopencl", (), (2026, 1)),
        ("kcl", (), ()),
        "kcl uses what pyopencl 2026.1 brought",
        'pip install "pyopencl>=2026.1,<2027"',
    ),
)


def platforms() -> Iterator[Finding]:
    """Name the OpenCL platforms and devices that pyopencl finds; loads every driver."""
    if util.find_spec("pyopencl") is None:
        yield Finding(PROBLEM, "pyopencl is not installed", "pip install pyopencl")
        return
    folder = settings.variable("OCL_ICD_VENDORS")
    where = f"; OCL_ICD_VENDORS={folder}" if folder else ""
    try:
        import pyopencl

        found = pyopencl.get_platforms()
    except Exception as error:  # a driver may raise any exception, and no driver at all is an error too
        yield Finding(PROBLEM, f"no OpenCL platform was found ({error}){where}", _cure())
        return
    devices = 0
    for platform in found:
        try:
            listed = platform.get_devices()
            names = [device.name.strip() for device in listed]
            nameless = any(has_no_cpu_name(device.version) for device in listed)
        except Exception as error:
            yield Finding(WARNING, f"{platform.name}: its devices cannot be asked for ({error})")
            continue
        devices += len(names)
        says = ", ".join(names) or "no device"
        yield Finding(OK if names else NOTE, f"{platform.name} ({platform.version}): {says}")
        if nameless:
            words = f"{platform.name} has no name for this CPU: no program builds where its LLVM is older than that"
            yield Finding(WARNING, words, _NEWER_POCL)
        if has_no_linker(platform.version):
            words = f"{platform.name} links what it builds with ld, which is not there: a program that is built aborts"
            yield Finding(WARNING, words, "apt-get install binutils, or the package of your system that has ld")
    if not devices:
        yield Finding(PROBLEM, f"no platform has a device{where}", _cure())


def _cure() -> str:
    """Say how to get a device: PoCL shows none where it cannot write its cache."""
    place = caches.place("pocl").path
    return f"cure the directories first; if that is not enough: {_POCL}" if place and usable.fault(place) else _POCL


def has_no_cpu_name(version: str) -> bool:
    """Tell by a device's version whether PoCL found no name for this CPU, which clang insists on for x86."""
    return bool(re.search(r"(?i)\bpocl\b.*x86_64.*-generic$", version.strip()))


def has_no_linker(version: str) -> bool:
    """Tell by a platform's version whether it is PoCL, without the linker that it starts for each program."""
    return bool(re.search(r"(?i)\bpocl\b", version)) and shutil.which("ld") is None


def packages() -> Iterator[Finding]:
    """Name the missing packages, and the features that need them."""
    for name, severity, needed in (
        ("loopy", NOTE, "recipes that return loopy kernels"),
        ("numpy", PROBLEM, "every launch"),
    ):
        if util.find_spec(name) is None:
            yield Finding(severity, f"{name} is not installed: {needed} need it", f"pip install {name}")


def versions() -> Iterator[Finding]:
    """Name versions that are known to fail together."""
    for (one, *range_one), (other, *range_other), words, cure in WRONG_TOGETHER:
        here, there = _version(one), _version(other)
        if here and there and _is_in(here, *range_one) and _is_in(there, *range_other):
            yield Finding(PROBLEM, f"{one} {here} with {other} {there}: {words}", cure)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _is_in(version: str, first: tuple[int, ...], end: tuple[int, ...]) -> bool:
    numbers = _numbers(version)
    return numbers >= first and (not end or numbers < end)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
