"""The few OpenCL calls of the helper, by ctypes, since importing pyopencl would take ten times as long."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulong, c_void_p
from typing import Any

# The numbers of CL_PLATFORM_NAME and other constants in OpenCL's header.
_PLATFORM = {"name": 0x0902, "version": 0x0901}
_DEVICE = {"name": 0x102B, "driver": 0x102D}
_ANY_DEVICE = c_ulong(0xFFFFFFFF)
_BINARY_SIZES, _BINARIES, _KERNEL_NAMES = 0x1165, 0x1166, 0x1168


class RefusedCall(Exception):
    """An OpenCL call returned an error."""


class Library:
    """The OpenCL library that pyopencl uses. Loading it loads no driver yet. Handles are `c_void_p`."""

    def __init__(self, pyopencl: str) -> None:
        """Load the library that pyopencl's extension module, in the directory `pyopencl`, is linked to; raise `OSError`."""
        self._functions = _load(pyopencl)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status; raise `RefusedCall` unless that is success."""
        status = getattr(self._functions, name)(*arguments)
        if status:
            raise RefusedCall(f"{name}: {status}")

    def make(self, name: str, *arguments: Any) -> c_void_p:
        """Call a function that returns a handle; raise `RefusedCall` if it fails."""
        function, status = getattr(self._functions, name), c_int(0)
        # By default ctypes converts the result to an int, which would cut the handle.
        function.restype = c_void_p
        handle = c_void_p(function(*arguments, byref(status)))
        if status.value or not handle:
            raise RefusedCall(f"{name}: {status.value}")
        return handle

    def device(self, platform: Mapping[str, str], device: Mapping[str, str]) -> Device | None:
        """Return the device with these names and versions, in a context of its own; ``None`` if there is none."""
        for candidate in self._handles("clGetPlatformIDs"):
            if self._fits("clGetPlatformInfo", candidate, _PLATFORM, platform):
                for handle in self._handles("clGetDeviceIDs", candidate, _ANY_DEVICE):
                    if self._fits("clGetDeviceInfo", handle, _DEVICE, device):
                        return Device(self, handle)
        return None

    def _handles(self, name: str, *arguments: Any) -> list[c_void_p]:
        count = c_uint(0)
        try:
            self.call(name, *arguments, 0, None, byref(count))
            handles = (c_void_p * count.value)()
            self.call(name, *arguments, count.value, handles, None)
        except RefusedCall:
            # There is no platform, or the platform has no devices.
            return []
        return [c_void_p(handle) for handle in handles]

    def _fits(
        self, name: str, handle: c_void_p, facts: Mapping[str, int], wanted: Mapping[str, str]
    ) -> bool:
        return all(
            self.text(name, handle, fact).strip() == wanted.get(key, "").strip()
            for key, fact in facts.items()
        )

    def text(self, name: str, handle: c_void_p, fact: int) -> str:
        """Return the text that an info function, such as clGetDeviceInfo, gives for a handle; raise `RefusedCall`."""
        size = c_size_t(0)
        self.call(name, handle, fact, c_size_t(0), None, byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        self.call(name, handle, fact, size, buffer, None)
        return buffer.value.decode("utf-8", "replace")


class Device:
    """One device, in a context of its own."""

    def __init__(self, library: Library, handle: c_void_p) -> None:
        self.library = library
        self._handle = (c_void_p * 1)(handle.value)
        self._context = library.make("clCreateContext", None, 1, self._handle, None, None)

    def from_source(self, source: bytes, options: bytes) -> Program:
        """Compile and link; raise `RefusedCall`."""
        text, size = c_char_p(source), c_size_t(len(source))
        handle = self.library.make(
            "clCreateProgramWithSource", self._context, 1, byref(text), byref(size)
        )
        return self._built(handle, options)

    def from_binary(self, binary: bytes, options: bytes) -> Program:
        """Load a verified binary; raise `RefusedCall`."""
        text, size, status = c_char_p(binary), c_size_t(len(binary)), c_int(0)
        handle = self.library.make(
            "clCreateProgramWithBinary",
            self._context,
            1,
            self._handle,
            byref(size),
            byref(text),
            byref(status),
        )
        return self._built(handle, options)

    def _built(self, handle: c_void_p, options: bytes) -> Program:
        self.library.call("clBuildProgram", handle, 1, self._handle, options, None, None)
        return Program(self.library, handle)


class Program:
    """A built program, to be released by `close`."""

    def __init__(self, library: Library, handle: c_void_p) -> None:
        self._library = library
        self._handle = handle

    def binary(self) -> bytes:
        """Return the binary; raise `RefusedCall`. PoCL returns the same bytes from the first call on."""
        size, room = c_size_t(0), c_size_t(ctypes.sizeof(c_void_p))
        self._library.call("clGetProgramInfo", self._handle, _BINARY_SIZES, room, byref(size), None)
        buffer = ctypes.create_string_buffer(size.value)
        pointer = c_void_p(ctypes.addressof(buffer))
        self._library.call("clGetProgramInfo", self._handle, _BINARIES, room, byref(pointer), None)
        return buffer.raw

    def kernel_names(self) -> list[str]:
        """Return the names of all kernels in the program."""
        names = self._library.text("clGetProgramInfo", self._handle, _KERNEL_NAMES)
        return [name for name in names.split(";") if name]

    def create_kernels(self, names: Sequence[str]) -> None:
        """Create and release every kernel; raise `RefusedCall` if the program lacks one."""
        for name in names:
            handle = self._library.make("clCreateKernel", self._handle, name.encode("utf-8"))
            self._library.call("clReleaseKernel", handle)

    def close(self) -> None:
        """Release the program."""
        self._library.call("clReleaseProgram", self._handle)


def _load(pyopencl: str) -> ctypes.CDLL:
    """Load pyopencl's extension module as a library, which loads the OpenCL library that it is linked to."""
    names = [
        name for name in os.listdir(pyopencl) if name.startswith("_cl.") and name.endswith(".so")
    ]
    if not names:
        raise OSError(f"{pyopencl} has no extension module of pyopencl")
    return ctypes.CDLL(os.path.join(pyopencl, min(names)))
