"""The base class of drivers: what kcl does differently for an OpenCL implementation. `kcl.drivers` has their table.

The *identity* of a device is the facts that decide whether a program binary fits it. It leaves out the device's index,
the number of threads, memory limits, paths and user names.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kcl import foreign
from kcl.base import process
from kcl.cache.entry import Entry
from kcl.cache.key import Part

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.programs.open_jobs import OpenJobs
    from kcl.programs.program_key import ProgramSlot


Progress = Callable[[int, int], object]
# The reason in the event of a miss.
BEING_COMPLETED = "being completed: this process has built it before"
# The CPU flags that affect generated code, by their beginnings.
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
_ENDS = 128 << 10


# An entry without its binary, and the address at which the driver's helper will publish it with the binary.
Promise = tuple[str, Entry]


class Driver:
    """An OpenCL driver that returns the binary of a program at once. Drivers that need more are subclasses. Stateless."""

    # True if the driver survives a fork, so that forked children may run recipes.
    may_fork = False

    def identity(self, device: cl.Device) -> tuple[Part, ...]:
        """Return the parts of a program key that identify the device."""
        return identity_of(device)

    def untried(self, _device: cl.Device) -> str:
        """Return why programs for a device are not cached; empty if they are."""
        return ""

    def folder(self, device: cl.Device) -> str:
        """Return a readable name for the folder with the entries of a device."""
        return str(device.name)

    def added_options(self) -> str:
        """Return the build options that the driver adds to the given ones."""
        return ""

    def given(self, source: str) -> str:
        """Return the text that the driver compiles for a source."""
        return source

    def mark(self, _source: str, _headers: Callable[[], str]) -> str:
        """Return a build option that changes with the headers, for the driver's own cache. `headers` returns a digest."""
        return ""

    def messages(self, log: str) -> str:
        """Return the messages of a build log that an entry keeps."""
        return log

    def described(self, _slot: ProgramSlot) -> dict[str, Any]:
        """Return metadata for the process that completes the entry."""
        return {}

    def completed(self, program: cl.Program, slot: ProgramSlot, entry: Entry) -> Entry | None:
        """Return the entry with its binary; None if the driver takes long to return that. Raises cl.Error."""
        import pyopencl as cl

        devices = program.get_info(cl.program_info.DEVICES)
        binary = program.get_info(cl.program_info.BINARIES)[devices.index(slot.device)]
        return Entry(
            entry.key, {**entry.metadata, "complete": True}, {**entry.parts, "binary": binary}
        )

    def launched(self, promises: tuple[Promise, ...]) -> None:
        """Take the promises of a program that was launched: they can be completed now."""

    def unseen(self, promises: tuple[Promise, ...]) -> None:
        """Take the promises of a program whose launches kcl does not see: they can be completed when the process ends."""

    def loading(self, entry: Entry) -> None:
        """Make sure that the driver will use the binary of an entry, just before a program is made of it."""

    def loaded(self, slot: ProgramSlot, entry: Entry) -> None:
        """Take note of a program that was made from an entry."""

    def awaited(self, _slot: ProgramSlot) -> bool:
        """Wait for the process that completes a slot's entry; return False if there is none, or if it takes too long."""
        return False

    def is_asked(self, _slot: ProgramSlot) -> bool:
        """Return True if this process has asked another one to complete a slot's entry."""
        return False

    # for commands and reports

    def flush(self, _seconds: float, _progress: Progress | None, /) -> bool:
        """Have the open entries completed, and wait for that; return False if they are not complete in time."""
        return True

    def pending(self) -> OpenJobs | None:
        """Return the open entries; None for a driver that never has any. Raises a store's errors."""
        return None

    def quiet(self, _folder: str, _seconds: float) -> bool:
        """Drop the open entries and end the helper; return False if it still runs."""
        return True

    def damaged(self, _folders: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the paths of damaged files below folders of the driver's own cache, each with a description."""
        return iter(())

    def files(self, _binary: bytes) -> dict[str, bytes]:
        """Return the files inside a binary by path; none if it is another driver's. Raises ValueError if it is damaged."""
        return {}


def identity_of(device: cl.Device) -> tuple[Part, ...]:
    """Return the parts of a program key that identify a device; they stay the same in a process.

    Takes about half a millisecond. Thread-safe. A fact that cannot be found out is "unknown".
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
    # 2 is CL_DEVICE_TYPE_CPU, by number so that pyopencl need not be imported.
    if device.type & 2:
        parts.append(Part("cpu features", cpu_features()))
    return tuple(parts)


def variables() -> tuple[Part, ...]:
    """Return the key parts for the variables that drivers read when they build, with their present values."""
    return tuple([Part(f"variable {name}", value) for name, value in foreign.code_variables()])


def cpu_features() -> str:
    """Return the instruction sets of this machine's processor, sorted; its name if they cannot be read."""
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
    """Return a text that identifies the driver library of a platform; "unknown" if its file cannot be read."""
    try:
        return build_of(_library_path(platform))
    except (AttributeError, OSError, TypeError, ValueError):
        # Another process may be replacing the file of the loaded library; its content cannot be known any more.
        return "unknown"


def build_of(path: str) -> str:
    """Return a text that identifies a library's file: a digest of its first and last pages, and its size.

    These hold the build id that linkers write: it is in the last pages if a tool has changed the library. Raises OSError.
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
    """Return the file of a platform's driver library: the dynamic linker knows the file of its functions.

    The second function of the dispatch table (cl_khr_icd) is asked for: from version 2 of that extension on, for example in
    PoCL 7.1, the first place holds a tag.
    """
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_DlInfo))
    table, info = ctypes.c_void_p.from_address(platform.int_ptr).value, _DlInfo()
    second = (table or 0) + ctypes.sizeof(ctypes.c_void_p)
    function = ctypes.c_void_p.from_address(second).value if table else None
    if not (function and dladdr(function, ctypes.byref(info)) and info.fname):
        raise ValueError("no file has the driver's functions")
    return os.fsdecode(info.fname)
