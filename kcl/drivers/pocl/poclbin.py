"""PoCL's program binaries, container version 8: find the files, and cut some of them out again.

    container = header file kernel*            exactly as many kernels as the header says; nothing follows
    header    = "poclbin" NUL  device:u64  version:u32  kernels:u32  flags:u64  program
    program   = the directory of the program below PoCL's cache, 40 letters, and NUL
    file      = text text                      path below the program's directory, content
    kernel    = struct-size:u64  files-size:u64  arguments-size:u32  name:text  description  file*
    text      = length:u32 bytes               all numbers little-endian

struct-size counts the whole kernel, and files-size its files. Of the description only the length is known. The first
file is ``/program.bc``; those of a kernel are ``/<kernel>/<local size>/<kernel>.so``. PoCL itself checks none of this.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import NamedTuple

MAGIC = b"poclbin\0"
VERSION = 8
_BITCODE = "/program.bc"

_HEADER = struct.Struct("<8sQIIQ41s")
_SIZES = struct.Struct("<QQI")
_PROGRAM = re.compile(rb"[A-P]{2}/[A-P]{37}\0")


class ContainerKernel(NamedTuple):
    """One kernel: the bytes between its sizes and its files, and the content of each file by its path."""

    description: bytes
    arguments_size: int
    files: dict[str, bytes]

    def pack(self) -> bytes:
        """Return the bytes of the kernel in a container."""
        files = b"".join(
            [
                _packed(path.encode("ascii")) + _packed(content)
                for path, content in self.files.items()
            ]
        )
        size = _SIZES.size + len(self.description) + len(files)
        return _SIZES.pack(size, len(files), self.arguments_size) + self.description + files


class Container(NamedTuple):
    """A program binary: its bytes before the kernels, the program's directory in PoCL's cache, bitcode and kernels.

    A path of a file is below the program's directory, with a leading slash.
    """

    start: bytes
    program: str
    bitcode: bytes
    kernels: tuple[ContainerKernel, ...]

    def pack(self) -> bytes:
        """Return the bytes of the container."""
        return self.start + b"".join([kernel.pack() for kernel in self.kernels])

    def code(self) -> dict[str, bytes]:
        """Return the content of every file of the kernels by its path."""
        return {path: content for kernel in self.kernels for path, content in kernel.files.items()}

    def files(self) -> dict[str, bytes]:
        """Return the content of every file by its path."""
        return {_BITCODE: self.bitcode, **self.code()}

    def without(self, paths: Iterable[str]) -> Container:
        """Return the container without the kernels' files at these paths; raise `ValueError` if one is missing."""
        kernels = tuple([kernel._replace(files=dict(kernel.files)) for kernel in self.kernels])
        for path in paths:
            if not sum(bool(kernel.files.pop(path, None)) for kernel in kernels):
                raise ValueError(f"not in the binary: {path}")
        return self._replace(kernels=kernels)


def read(blob: bytes) -> Container:
    """Return the content of a binary; raise `ValueError` for anything that is not exactly the grammar above.

    Packing what was read must give the binary back, so no length in it is checked where it is read.
    """
    magic, _device, version, count, _flags, program = _HEADER.unpack(
        blob[: _HEADER.size].ljust(_HEADER.size, b"\0")
    )
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"not a PoCL binary of container version {VERSION}: {magic!r}, {version}")
    if not _PROGRAM.fullmatch(program):
        raise ValueError(f"not a directory of PoCL's cache: {program!r}")
    path, bitcode, first = _file(blob, _HEADER.size)
    if path != _BITCODE:
        raise ValueError(f"the first file is {path!r}, not the bitcode")
    kernels, at = [], first
    while at < len(blob):
        kernel, at = _kernel(blob, at)
        kernels.append(kernel)
    container = Container(blob[:first], program[:40].decode(), bitcode, tuple(kernels))
    names = {_text(kernel.description, 0)[0] for kernel in kernels}
    if len(names) != count or len(kernels) != count or container.pack() != blob:
        raise ValueError("the binary is not written as PoCL writes it")
    return container


def _kernel(blob: bytes, at: int) -> tuple[ContainerKernel, int]:
    """Return the kernel at a position, and the position after it."""
    size, files_size, arguments_size = _SIZES.unpack(
        blob[at : at + _SIZES.size].ljust(_SIZES.size, b"\0")
    )
    if size < _SIZES.size:
        raise ValueError(f"a kernel of {size} bytes")
    end = at + size
    description = blob[at + _SIZES.size : end - files_size]
    name = _text(description, 0)[0].decode("ascii")  # UnicodeDecodeError is a ValueError
    files: dict[str, bytes] = {}
    at = end - files_size
    while at < end:
        path, content, at = _file(blob, at)
        files[path] = content
        if path.split("/")[1:2] != [name] or path.count("/") != 3:
            raise ValueError(f"{path} is in the place of a file of the kernel {name}")
    return ContainerKernel(description, arguments_size, files), end


def _file(blob: bytes, at: int) -> tuple[str, bytes, int]:
    """Return the path and the content of the file at a position, and the position after it."""
    text, at = _text(blob, at)
    content, at = _text(blob, at)
    path = text.decode("ascii")
    if (
        path[:1] != "/"
        or not path.isprintable()
        or {"", ".", ".."} & set(path[1:].split("/"))
        or not content
    ):
        raise ValueError(f"no file below the program's directory: {path!r} of {len(content)} bytes")
    return path, content, at


def _text(blob: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + int.from_bytes(blob[at : at + 4], "little")
    if end > len(blob):
        raise ValueError(f"the binary ends inside the text at {at}")
    return blob[at + 4 : end], end


def _packed(text: bytes) -> bytes:
    return len(text).to_bytes(4, "little") + text
