"""Device identity: the facts that decide whether a program binary fits a device.

Device index, number of threads, memory limits, paths and user names are not in it.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import TYPE_CHECKING

from kcl import caches
from kcl.cache.key import Part

if TYPE_CHECKING:
    import pyopencl as cl

# The instruction sets by which a compiler chooses code; the other flags do not affect a binary.
_FEATURES = (
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
    "neon",
    "asimd",
    "movbe",
)
_NOTE_SEGMENT = 4
_BUILD_ID_NOTE = 3


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
    if _is_cpu(device):
        parts.append(Part("cpu features", cpu_features()))
    return tuple(parts)


def variables() -> tuple[Part, ...]:
    """Return the parts for the variables that drivers read as they build, as of now."""
    return tuple([Part(f"variable {name}", value) for name, value in caches.code_variables()])


def cpu_features(file: str = "/proc/cpuinfo") -> str:
    """Return the instruction sets of this machine's processor, sorted, or its name where they cannot be had."""
    try:
        with open(file, "rb") as stream:
            # The first processor's block is enough; the whole file takes milliseconds on a large machine.
            block = stream.read(8192).decode("ascii", "replace")
    except OSError:
        block = ""
    for line in block.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return " ".join(sorted(flag for flag in value.split() if flag.startswith(_FEATURES)))
    return os.uname().machine if hasattr(os, "uname") else sys.platform


def _is_cpu(device: cl.Device) -> bool:
    return bool(device.type & 2)  # CL_DEVICE_TYPE_CPU


def _library(platform: cl.Platform) -> str:
    """Name the build of the driver library behind `platform`: its ELF build id, else its size."""
    path = _library_path(platform)
    return "unknown" if path is None else _build_of(path)


def _build_of(path: str) -> str:
    try:
        return _build_id(path) or f"{os.path.getsize(path)} bytes"
    except (OSError, ValueError, OverflowError, struct.error):
        # Another process may be replacing the file of the loaded library; its content cannot be known any more.
        return "unknown"


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("fname", ctypes.c_char_p),
        ("fbase", ctypes.c_void_p),
        ("sname", ctypes.c_char_p),
        ("saddr", ctypes.c_void_p),
    )


def _library_path(platform: cl.Platform) -> str | None:
    """Ask the dynamic linker which file holds the first function of the platform's dispatch table (cl_khr_icd)."""
    try:
        dladdr = ctypes.CDLL(None).dladdr
        dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_DlInfo))
        table = ctypes.c_void_p.from_address(platform.int_ptr).value
        if not table:
            return None
        function = ctypes.c_void_p.from_address(table).value
        info = _DlInfo()
        if function and dladdr(function, ctypes.byref(info)) and info.fname:
            return os.fsdecode(info.fname)
    except (AttributeError, OSError, TypeError, ValueError):
        pass
    return None


def _build_id(path: str) -> str | None:
    """Return the GNU build id of a 64-bit little-endian ELF file, None where it has none."""
    with open(path, "rb") as stream:
        header = stream.read(64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
            return None
        offset, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
        stream.seek(offset)
        table = stream.read(size * count)
        for start in range(0, len(table) - 55, size):
            kind, _flags, position, _va, _pa, length = struct.unpack_from("<IIQQQQ", table, start)
            if kind == _NOTE_SEGMENT and length < 1 << 16:
                stream.seek(position)
                found = _note(stream.read(length))
                if found:
                    return found
    return None


def _note(notes: bytes) -> str | None:
    position = 0
    while position + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, position)
        start = position + 12 + (name_size + 3 & ~3)
        if kind == _BUILD_ID_NOTE and notes[position + 12 : position + 15] == b"GNU":
            return notes[start : start + size].hex()
        position = start + (size + 3 & ~3)
    return None
