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

import struct
from collections.abc import Iterable
from typing import NamedTuple

MAGIC = b"poclbin\0"
VERSION = 8

_HEADER = struct.Struct("<8sQIIQ41s")
_SIZES = struct.Struct("<QQI")
_WORD = struct.Struct("<I")
_LETTERS = frozenset("ABCDEFGHIJKLMNOP")


class ContainerFile(NamedTuple):
    """A file in a container: its path below the program's directory, with a leading slash."""

    path: str
    content: bytes

    def pack(self) -> bytes:
        """Return the bytes of the file in a container."""
        path = self.path.encode("ascii")
        return b"".join((_WORD.pack(len(path)), path, _WORD.pack(len(self.content)), self.content))


class ContainerKernel(NamedTuple):
    """One kernel: its name, the bytes between its sizes and its files, and the files."""

    name: str
    description: bytes
    arguments_size: int
    files: tuple[ContainerFile, ...]

    def pack(self) -> bytes:
        """Return the bytes of the kernel in a container."""
        files = b"".join(file.pack() for file in self.files)
        size = _SIZES.size + len(self.description) + len(files)
        return _SIZES.pack(size, len(files), self.arguments_size) + self.description + files


class Container(NamedTuple):
    """A program binary: the header's bytes, the program's directory in PoCL's cache, its bitcode, its kernels."""

    header: bytes
    program: str
    bitcode: ContainerFile
    kernels: tuple[ContainerKernel, ...]

    def pack(self) -> bytes:
        """Return the bytes of the container."""
        return b"".join((self.header, self.bitcode.pack(), *(kernel.pack() for kernel in self.kernels)))

    def files(self) -> dict[str, bytes]:
        """Return the content of every file by its path."""
        return dict([self.bitcode, *(file for kernel in self.kernels for file in kernel.files)])

    def without(self, paths: Iterable[str]) -> Container:
        """Return the container without the kernels' files at these paths; raise `ValueError` if one is missing."""
        unwanted = set(paths)
        missing = unwanted - {file.path for kernel in self.kernels for file in kernel.files}
        if missing:
            raise ValueError(f"not in the binary: {', '.join(sorted(missing))}")
        kernels = [
            kernel._replace(files=tuple([file for file in kernel.files if file.path not in unwanted]))
            for kernel in self.kernels
        ]
        return self._replace(kernels=tuple(kernels))


def read(blob: bytes) -> Container:
    """Return the content of a binary; raise `ValueError` for anything that is not exactly the grammar above."""
    reader = _Reader(blob)
    header = reader.take(_HEADER.size)
    magic, _device, version, count, _flags, program = _HEADER.unpack(header)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"not a PoCL binary of container version {VERSION}: {magic!r}, {version}")
    place = program.decode("ascii")
    if place[2] != "/" or place[40] != "\0" or not set(place[:2] + place[3:40]) <= _LETTERS:
        raise ValueError(f"not a directory of PoCL's cache: {place!r}")
    bitcode = reader.file()
    if bitcode.path != "/program.bc":
        raise ValueError(f"the first file is {bitcode.path!r}, not the bitcode")
    kernels = tuple([_kernel(reader) for _ in range(count)])
    container = Container(header, place[:40], bitcode, kernels)
    if len({kernel.name for kernel in kernels}) != count or container.pack() != blob:  # nothing follows
        raise ValueError("the binary is not written as PoCL writes it")
    return container


class _Reader:
    """A position in the blob; no read passes its end."""

    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.blob):
            raise ValueError(f"the binary ends inside the {size} bytes at {self.position}")
        taken = self.blob[self.position : end]
        self.position = end
        return taken

    def text(self) -> bytes:
        return self.take(_WORD.unpack(self.take(_WORD.size))[0])

    def name(self) -> str:
        name = self.text().decode("ascii")  # UnicodeDecodeError is a ValueError
        if not name.isprintable() or not name:
            raise ValueError(f"not a name: {name!r}")
        return name

    def file(self) -> ContainerFile:
        path, content = self.name(), self.text()
        if not path.startswith("/") or {"", ".", ".."} & set(path[1:].split("/")):
            raise ValueError(f"not a path below the program's directory: {path!r}")
        if not content:
            raise ValueError(f"{path} is empty")
        return ContainerFile(path, content)


def _kernel(reader: _Reader) -> ContainerKernel:
    size, files_size, arguments_size = _SIZES.unpack(reader.take(_SIZES.size))
    if files_size + _SIZES.size > size:
        raise ValueError(f"a kernel of {size} bytes cannot hold {files_size} bytes of files")
    description = reader.take(size - files_size - _SIZES.size)
    name = _Reader(description).name()
    files, found = _Reader(reader.take(files_size)), list[ContainerFile]()
    while files.position < files_size:
        found.append(files.file())
        path = found[-1].path
        if path.split("/")[1:2] != [name] or path.count("/") != 3:
            raise ValueError(f"{path} is in the place of a file of the kernel {name}")
    return ContainerKernel(name, description, arguments_size, tuple(found))
