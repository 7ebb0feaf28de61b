"""PoCL's program binaries: reads the files inside, removes some of them, and compares them with PoCL's cache.

    container = header root* kernel*           exactly as many roots and kernels as the header says; nothing follows
    header    = "poclbin" NUL  device:u64  version:u32  kernels:u32  flags:u64  [roots:u32]  program  [variables:u64]
    program   = the directory of the program below PoCL's cache, 40 letters, and NUL
    root      = [size:u64] file*               files of the program; size counts them
    file      = text text                      path below the program's directory, content
    kernel    = struct-size:u64  files-size:u64  description  file*
    description = arguments-size:u32  name:text  ...
    text      = length:u32 bytes               all numbers little-endian

| version | PoCL | differs |
|---|---|---|
| 8 | 1.8, 3.0 | one root, which is one file; neither `roots` nor `size` |
| 9 | 3.1 | has both |
| 11 | 4.0 to 7.1 | if bit 1 of the flags is set, `variables`: the bytes of variables that outlive a launch |
| 12 | 7.2 | has another description of kernels, and may hold objects in the place of libraries; untried |

struct-size is the size of the whole kernel, files-size that of its files. The rest of the description is not
interpreted. The first file is ``/program.bc``; those of a kernel are ``/<kernel>/<local size>/<kernel>.so``. From PoCL 4
on a long name of a kernel is shortened in paths. PoCL itself checks none of this.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

MAGIC = b"poclbin\0"
VERSIONS = (8, 9, 11, 12)
BITCODE = "/program.bc"
# PoCL's name for the code that fits every local size.
GENERIC = "0-0-0"

_START = struct.Struct("<8sQIIQ")
_SIZES = struct.Struct("<QQ")
_PROGRAM = re.compile(rb"[A-P]{2}/[A-P]{37}\0")
# The offset of the name in the description of a kernel.
_NAME_AT = 4
_HAS_VARIABLES = 2


class UnknownContainer(ValueError):
    """A binary has a container version that kcl cannot read. The argument is the version."""


class Container(NamedTuple):
    """A parsed program binary.

    `start` is everything before the kernels. `program` is the program's directory in PoCL's cache. `own` are the files of
    the program: its bitcode, and the code that sets its variables. A kernel is (description, files). Files are path ->
    content; a path begins at the program's directory, with a slash.
    """

    start: bytes
    program: str
    own: dict[str, bytes]
    kernels: tuple[tuple[bytes, dict[str, bytes]], ...]

    def pack(self) -> bytes:
        """Return the bytes of the container."""
        return self.start + b"".join([_packed_kernel(*kernel) for kernel in self.kernels])

    def code(self) -> dict[str, bytes]:
        """Return path -> content of every file but the bitcode."""
        return {path: content for path, content in self.files().items() if path != BITCODE}

    def files(self) -> dict[str, bytes]:
        """Return path -> content of every file."""
        contents = dict(self.own)
        for _description, files in self.kernels:
            contents |= files
        return contents

    def without(self, paths: Iterable[str]) -> Container:
        """Return the container without the kernels' files at these paths; raise `ValueError` if one is missing."""
        kernels = tuple([(description, dict(files)) for description, files in self.kernels])
        for path in paths:
            if not sum(bool(files.pop(path, None)) for _description, files in kernels):
                raise ValueError(f"not in the binary: {path}")
        return self._replace(kernels=kernels)


def read(blob: bytes) -> Container:
    """Parse a binary; raise `ValueError` if it differs from the grammar above, `UnknownContainer` for another version.

    Packing the result again must give the same bytes. So most lengths need no check of their own.
    """
    version, count, flags = _checked(blob)
    at, roots = _START.size, 1
    if version > 8:
        roots, at = int.from_bytes(blob[at : at + 4], "little"), at + 4
    program, at = blob[at : at + 41], at + 41
    if not _PROGRAM.fullmatch(program):
        raise ValueError(f"not a directory of PoCL's cache: {program!r}")
    if version > 9 and flags & _HAS_VARIABLES:
        at += 8
    own: dict[str, bytes] = {}
    # `min`, since a damaged number may be huge.
    for _ in range(min(roots, len(blob))):
        if version == 8:
            path, content, at = _file(blob, at)
            own[path] = content
        else:
            end = at + 8 + int.from_bytes(blob[at : at + 8], "little")
            files, at = _files(blob, at + 8, end), end
            own |= files
    if next(iter(own), "") != BITCODE:
        raise ValueError(f"the first file is {next(iter(own), '')!r}, not the bitcode")
    start, kernels = blob[:at], list[tuple[bytes, dict[str, bytes]]]()
    while at < len(blob):
        description, files, at = _kernel(blob, at)
        kernels.append((description, files))
    container = Container(start, program[:40].decode(), own, tuple(kernels))
    names = {_text(description, _NAME_AT)[0] for description, _files in kernels}
    if len(names) != count or len(kernels) != count or container.pack() != blob:
        raise ValueError("the binary is not written as PoCL writes it")
    return container


def check(blob: bytes) -> None:
    """Raise `UnknownContainer` if a binary is PoCL's and has a version that `read` does not know."""
    if blob.startswith(MAGIC):
        _checked(blob)


def is_folder_of(folder: str, kernel: str) -> bool:
    """Return True if PoCL keeps the code of a kernel in a folder of this name.

    PoCL 4 and later versions shorten a long name: its start, a dot, and its SHA-1 in 40 letters.
    """
    if folder == kernel or "." not in folder:
        return folder == kernel
    digest = hashlib.sha1(kernel.encode(), usedforsecurity=False).digest()
    letters = "".join([chr(65 + byte % 16) + chr(65 + byte // 16) for byte in digest])
    return folder.endswith(f".{letters}")


def is_code(path: str) -> bool:
    """Return True for a library or an object file of PoCL's cache; `<kernel>.so.o` is only a step towards a library."""
    return path.endswith((".so", ".o")) and not path.endswith(".so.o")


def sizes_by_kernel(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return folder of a kernel -> names of the local sizes that have code."""
    sizes: dict[str, list[str]] = {}
    for path in sorted(paths):
        _, kernel, size, _ = path.split("/")
        sizes.setdefault(kernel, []).append(size)
    return sizes


def specialised_paths(user: str, place: str) -> list[str]:
    """Return the paths of the specialised code in the user's PoCL cache for a program."""
    root = f"{user}/{place}"
    paths = []
    for kernel in _folders(root):
        for size in _folders(kernel.path):
            with suppress(OSError):
                paths += [f"/{kernel.name}/{size.name}/{name}" for name in os.listdir(size.path)]
    return [path for path in paths if is_code(path)]


def lacking(cache: str, about: Mapping[str, Any]) -> list[str]:
    """Return the kernels for which PoCL's cache has code that an entry with this metadata lacks."""
    if not about.get("place"):
        return []
    in_entry = about["specialisations"]
    there = sizes_by_kernel(specialised_paths(cache, about["place"]))
    return [kernel for kernel in there if {*there[kernel]} - {GENERIC, *in_entry.get(kernel, ())}]


def _checked(blob: bytes) -> tuple[int, int, int]:
    """Return the version, the number of kernels and the flags in a header."""
    magic, _device, version, count, flags = _START.unpack(
        blob[: _START.size].ljust(_START.size, b"\0")
    )
    if magic != MAGIC:
        raise ValueError(f"not a binary of PoCL: {magic!r}")
    if version not in VERSIONS:
        raise UnknownContainer(version)
    return version, count, flags


def _kernel(blob: bytes, at: int) -> tuple[bytes, dict[str, bytes], int]:
    """Parse the kernel at a position; return its description, its files, and the position after it."""
    size, files_size = _SIZES.unpack(blob[at : at + _SIZES.size].ljust(_SIZES.size, b"\0"))
    if size < _SIZES.size:
        raise ValueError(f"a kernel of {size} bytes")
    end = at + size
    description = blob[at + _SIZES.size : end - files_size]
    # Raises UnicodeDecodeError, which is a ValueError, for a damaged name.
    name = _text(description, _NAME_AT)[0].decode("ascii")
    files = _files(blob, end - files_size, end)
    for path in files:
        if path.count("/") != 3 or not is_folder_of(path.split("/")[1], name):
            raise ValueError(f"{path} is in the place of a file of the kernel {name}")
    return description, files, end


def _files(blob: bytes, at: int, end: int) -> dict[str, bytes]:
    """Parse the files between two positions."""
    contents: dict[str, bytes] = {}
    while at < end:
        path, content, at = _file(blob, at)
        contents[path] = content
    if at != end:
        raise ValueError("a file ends after its kernel")
    return contents


def _file(blob: bytes, at: int) -> tuple[str, bytes, int]:
    """Parse the file at a position; return its path, its content, and the position after it."""
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
    # Checked here, since after the last text of a program without kernels no other length shows that bytes are missing.
    if end > len(blob):
        raise ValueError(f"the binary ends inside the text at {at}")
    return blob[at + 4 : end], end


def _folders(path: str) -> list[os.DirEntry[str]]:
    """Return the subdirectories of a directory, without links."""
    with suppress(OSError), os.scandir(path) as items:
        return [item for item in items if item.is_dir(follow_symlinks=False)]
    return []


def _packed_kernel(description: bytes, files: Mapping[str, bytes]) -> bytes:
    content = b"".join(
        [_packed(path.encode("ascii")) + _packed(content) for path, content in files.items()]
    )
    size = _SIZES.size + len(description) + len(content)
    return _SIZES.pack(size, len(content)) + description + content


def _packed(text: bytes) -> bytes:
    return len(text).to_bytes(4, "little") + text
