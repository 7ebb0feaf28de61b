"""Device identity: the facts that decide whether a program binary fits a device.

Device index, number of threads, memory limits, paths and user names are not in it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from typing import TYPE_CHECKING

from kcl import foreign
from kcl.base import process
from kcl.cache.key import Part

if TYPE_CHECKING:
    import pyopencl as cl

# The instruction sets by which a compiler chooses code; the other flags do not affect a binary.
_FEATURES = (
    *(
        "sse",
        "ssse",
        "gfni",
        "vaes",
        "xop",
        "tbm",
        "avx",
        "fma",
        "bmi",
        "amx",
        "sve",
        "f16c",
        "popcnt",
        "abm",
        "lzcnt",
    ),
    *("neon", "asimd", "movbe"),
)
_ENDS = 128 << 10


def identity(device: cl.Device) -> tuple[Part, ...]:
    """Return the parts of a key that identify the device of a binary; they stay the same in a process.

    Takes about half a millisecond; thread-safe. Never raises for a fact that cannot be had: it counts as "unknown".
    """
    platform = device.platform
    parts = [
        Part("platform", platform.name),
        Part("platform vendor", platform.vendor),
        Part("platform version", platform.version),
        Part("device", device.name),
        Part("device vendor", device.vendor),
        Part("device version", device.version),
        Part("driver", device.driver_version),
        Part("OpenCL C", device.opencl_c_version),
        Part("extensions", device.extensions.strip()),
        Part("address bits", str(device.address_bits)),
        Part("driver library", _library(platform)),
    ]
    if device.type & 2:  # CL_DEVICE_TYPE_CPU
        parts.append(Part("cpu features", cpu_features()))
    return tuple(parts)


def variables() -> tuple[Part, ...]:
    """Return the parts for the variables that drivers read as they build, as of now."""
    return tuple([Part(f"variable {name}", value) for name, value in foreign.code_variables()])


def cpu_features() -> str:
    """Return the instruction sets of this machine's processor, sorted, or its name where they cannot be had."""
    try:
        with process.proc("cpuinfo") as stream:
            # The first processor's block is enough; the whole file takes milliseconds on a large machine.
            block = stream.read(8192).decode("ascii", "replace")
    except OSError:
        block = ""
    for line in block.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return " ".join(sorted(flag for flag in value.split() if flag.startswith(_FEATURES)))
    return os.uname().machine if hasattr(os, "uname") else sys.platform


def _library(platform: cl.Platform) -> str:
    """Name the build of the driver library behind `platform`, if its file can be found and read."""
    try:
        return build_of(_library_path(platform))
    except (AttributeError, OSError, TypeError, ValueError):
        # Another process may be replacing the file of the loaded library; its content cannot be known any more.
        return "unknown"


def build_of(path: str) -> str:
    """Name the build of a library by its size, its first pages and its last ones; raises OSError.

    The build id that linkers write is in the first pages, or in the last ones if a tool has changed the library since.
    """
    with open(path, "rb") as stream:
        digest = hashlib.sha256(stream.read(_ENDS))
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - _ENDS, 0))
        digest.update(stream.read())
    return f"{digest.hexdigest()[:40]}, {size} bytes"


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("fname", ctypes.c_char_p),
        ("fbase", ctypes.c_void_p),
        ("sname", ctypes.c_char_p),
        ("saddr", ctypes.c_void_p),
    )


def _library_path(platform: cl.Platform) -> str:
    """Ask the dynamic linker which file holds the second function of the platform's dispatch table (cl_khr_icd).

    From version 2 of that extension on a tag is in the place of the first one, for example in PoCL 7.1.
    """
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_DlInfo))
    table, info = ctypes.c_void_p.from_address(platform.int_ptr).value, _DlInfo()
    second = (table or 0) + ctypes.sizeof(ctypes.c_void_p)
    function = ctypes.c_void_p.from_address(second).value if table else None
    if not (function and dladdr(function, ctypes.byref(info)) and info.fname):
        raise ValueError("no file has the driver's functions")
    return os.fsdecode(info.fname)
