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


class ContainerKernel(NamedTuple):
    """One kernel: its name, the bytes between its sizes and its files, and the files."""

    name: str
    description: bytes
    arguments_size: int
    files: tuple[ContainerFile, ...]


class Container(NamedTuple):
    """A program binary: the header's bytes, the program's directory in PoCL's cache, its bitcode, its kernels."""

    header: bytes
    program: str
    bitcode: ContainerFile
    kernels: tuple[ContainerKernel, ...]

    def files(self) -> dict[str, bytes]:
        """Return the content of every file by its path."""
        return dict([self.bitcode, *(file for kernel in self.kernels for file in kernel.files)])


def read(blob: bytes) -> Container:
    """Return the content of a binary; raise `ValueError` for anything that is not exactly the grammar above."""
    reader = _Reader(blob, 0, len(blob))
    header = reader.take(_HEADER.size)
    magic, _device, version, count, _flags, program = _HEADER.unpack(header)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"not a PoCL binary of container version {VERSION}: {magic!r}, {version}")
    directory = _program(program)
    bitcode = reader.file()
    if bitcode.path != "/program.bc":
        raise ValueError(f"the first file is {bitcode.path!r}, not the bitcode")
    kernels = tuple([_kernel(reader) for _ in range(count)])
    container = Container(header, directory, bitcode, kernels)
    if len({kernel.name for kernel in kernels}) != count or write(container) != blob:  # nothing follows
        raise ValueError("the binary is not written as PoCL writes it")
    return container


def write(container: Container) -> bytes:
    """Return the bytes of a container."""
    chunks = [container.header, *_file_chunks(container.bitcode)]
    for kernel in container.kernels:
        files = b"".join(chunk for file in kernel.files for chunk in _file_chunks(file))
        size = _SIZES.size + len(kernel.description) + len(files)
        chunks += [_SIZES.pack(size, len(files), kernel.arguments_size), kernel.description, files]
    return b"".join(chunks)


def without(container: Container, paths: Iterable[str]) -> Container:
    """Return the container without the kernels' files at these paths; raise `ValueError` where one is missing."""
    unwanted = set(paths)
    missing = unwanted - {file.path for kernel in container.kernels for file in kernel.files}
    if missing:
        raise ValueError(f"not in the binary: {', '.join(sorted(missing))}")
    kernels = [
        kernel._replace(files=tuple(file for file in kernel.files if file.path not in unwanted))
        for kernel in container.kernels
    ]
    return container._replace(kernels=tuple(kernels))


class _Reader:
    """A position in a part of the blob; no read passes the end of the part."""

    __slots__ = ("blob", "end", "position")

    def __init__(self, blob: bytes, position: int, end: int) -> None:
        self.blob = blob
        self.position = position
        self.end = end

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > self.end:
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

    def part(self, size: int) -> _Reader:
        """Return a reader for the next `size` bytes, which this one skips."""
        start = self.position
        self.take(size)
        return _Reader(self.blob, start, self.position)

    def rest(self) -> bytes:
        return self.blob[self.position : self.end]


def _program(raw: bytes) -> str:
    text = raw.decode("ascii")
    if text[2] != "/" or text[40] != "\0" or not set(text[:2] + text[3:40]) <= _LETTERS:
        raise ValueError(f"not a directory of PoCL's cache: {text!r}")
    return text[:40]


def _kernel(reader: _Reader) -> ContainerKernel:
    size, files_size, arguments_size = _SIZES.unpack(reader.take(_SIZES.size))
    if files_size + _SIZES.size > size:
        raise ValueError(f"a kernel of {size} bytes cannot hold {files_size} bytes of files")
    described = reader.part(size - files_size - _SIZES.size)
    description = described.rest()
    name = described.name()
    if "/" in name:
        raise ValueError(f"not a kernel's name: {name!r}")
    files = reader.part(files_size)
    found = []
    while files.position < files.end:
        file = files.file()
        if file.path.split("/")[1:2] != [name] or file.path.count("/") != 3:
            raise ValueError(f"{file.path} is in the place of a file of the kernel {name}")
        found.append(file)
    return ContainerKernel(name, description, arguments_size, tuple(found))


def _file_chunks(file: ContainerFile) -> tuple[bytes, ...]:
    path = file.path.encode("ascii")
    return _WORD.pack(len(path)), path, _WORD.pack(len(file.content)), file.content
