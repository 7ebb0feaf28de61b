"""Driver: how the OpenCL driver of a context differs from others. `kcl.drivers` has the table of drivers.

The identity of a device are the facts that decide whether a program binary fits it. Device index, number of threads,
memory limits, paths and user names are not in it.
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
# The reason of a miss in an event.
BEING_COMPLETED = "being completed: this process has built it before"
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
_ENDS = 128 << 10


# An entry without its binary, behind the address where the driver's helper is to publish it whole.
Promise = tuple[str, Entry]


class Driver:
    """An OpenCL driver that hands out a binary at once and needs nothing else; a driver that differs is a subclass.

    Stateless.
    """

    # True if a forked child may run recipes, which call no OpenCL.
    may_fork = False

    def identity(self, device: cl.Device) -> tuple[Part, ...]:
        """Return the parts of a key that say for which device a binary was built."""
        return identity_of(device)

    def untried(self, _device: cl.Device) -> str:
        """Say why nothing is stored for a device, whose programs run as without kcl; empty where entries are stored."""
        return ""

    def folder(self, device: cl.Device) -> str:
        """Return the name of the folder for the entries of a device, for readers of the cache directory."""
        return str(device.name)

    def added_options(self) -> str:
        """Return the build options that the driver adds to the given ones."""
        return ""

    def given(self, source: str) -> str:
        """Return the text that the driver gets for the source of a program."""
        return source

    def mark(self, _source: str, _headers: Callable[[], str]) -> str:
        """Return a build option that shows the driver's own cache a changed header; `headers` digests them."""
        return ""

    def messages(self, log: str) -> str:
        """Return those of the compiler's messages that an entry keeps."""
        return log

    def described(self, _slot: ProgramSlot) -> dict[str, Any]:
        """Return the facts that an entry holds for the process that completes it."""
        return {}

    def completed(self, program: cl.Program, slot: ProgramSlot, entry: Entry) -> Entry | None:
        """Return an entry with its binary, None where the driver is slow to give that out; raises cl.Error."""
        import pyopencl as cl

        devices = program.get_info(cl.program_info.DEVICES)
        binary = program.get_info(cl.program_info.BINARIES)[devices.index(slot.device)]
        return Entry(
            entry.key, {**entry.metadata, "complete": True}, {**entry.parts, "binary": binary}
        )

    def launched(self, promises: tuple[Promise, ...]) -> None:
        """Take the entries of a launched program: they can be completed now."""

    def unseen(self, promises: tuple[Promise, ...]) -> None:
        """Take the entries of a program whose launches kcl does not see: they can be completed as the process ends."""

    def loading(self, entry: Entry) -> None:
        """Make sure that the driver will use the binary of an entry, just before a program is made of it."""

    def loaded(self, slot: ProgramSlot, entry: Entry) -> None:
        """Take note of a program that was made of an entry."""

    def awaited(self, _slot: ProgramSlot) -> bool:
        """Wait for the process that completes a slot's entry; return False where none does, or that takes too long."""
        return False

    def is_asked(self, _slot: ProgramSlot) -> bool:
        """Return True if this process has asked another one to complete a slot's entry."""
        return False

    # the verbs of the tools

    def flush(self, _seconds: float, _progress: Progress | None, /) -> bool:
        """Complete the entries that wait for it, and wait for that."""
        return True

    def pending(self) -> OpenJobs | None:
        """Return the entries that wait to be completed, None for a driver that has none; raises a store's errors."""
        return None

    def quiet(self, _folder: str, _seconds: float) -> bool:
        """Drop what waits to be completed, and end the helper; return False if it still runs."""
        return True

    def damaged(self, _folders: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the paths of damaged files below folders of the driver's own cache, each with a description."""
        return iter(())

    def files(self, _binary: bytes) -> dict[str, bytes]:
        """Return the files in a binary by their path, none for another driver's; raises ValueError if it is damaged."""
        return {}


def identity_of(device: cl.Device) -> tuple[Part, ...]:
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
    # This is `CL_DEVICE_TYPE_CPU`, by its number: pyopencl need not be imported.
    if device.type & 2:
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
