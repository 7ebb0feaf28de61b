"""PoCL's cache directories: the helper's own, which it writes, and the user's, which it only reads.

    <cache>/<2 letters>/<37 letters>/program.bc                           bitcode of a program
    <cache>/<2 letters>/<37 letters>/last_accessed                        touched whenever the program is built
    <cache>/<2 letters>/<37 letters>/<kernel>/<local size>/<kernel>.so    specialised code; PoCL 7.2 may write <kernel>.o

The letters are the program's *place*: a digest of source, options and device, the same in every cache directory. From
PoCL 4 on a long kernel's name is shortened, in one way for folders and in another for files
(`kcl.drivers.pocl.poclbin`).

PoCL keeps no digests of these files, and crashes if one is damaged. Two builds of one program differ in their bytes, so
a file can only be checked by its form: a library is an ELF file that contains its section table, bitcode is a chain of
blocks that ends with the file (LLVM's bitstream format). If an entry has the file, `kcl.drivers.pocl` compares the bytes
instead.
"""

from __future__ import annotations

import glob
import os
import shutil
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from kcl.base import process
from kcl.base.settings import trust
from kcl.drivers.pocl.poclbin import GENERIC, is_code, is_folder_of, specialised_paths

BITCODE = "program.bc"
ACCESSED = "last_accessed"
# The longest kernel name that every PoCL writes in full.
_LONGEST_NAME = 59
_ENTER_BLOCK = 1
# The numbers of two blocks that bitcode must have: the module, and its names, after which PoCL's bitcode ends.
_NEEDED = {8, 23}

# A shared library without its header, as (struct format, numbers) in the layout of the System V gABI. Its names follow
# at offset 400.
_STUB = (
    # what is loaded, up to the largest page that Linux uses; the dynamic section; a stack without code
    ("<IIQQQQQQ", 1, 6, 0, 0, 0, 656, 656, 0x10000),
    ("<IIQQQQQQ", 2, 6, 304, 304, 304, 96, 96, 8),
    ("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16),
    # at 232 two symbols; the second one is a function
    ("<IBBHQQ", 0, 0, 0, 0, 0, 0),
    ("<IBBHQQ", 1, 0x12, 0, 1, 232, 0),
    # at 280 the hash table: one bucket, two symbols, the chain ends at once; padding
    ("<6I", 1, 2, 1, 0, 0, 0),
    # at 304 where the hash table, the names and the symbols are; the sizes of all names and of a symbol; the end
    ("<12Q", 4, 280, 5, 400, 6, 232, 10, 256, 11, 24, 0, 0),
)
_NAMES_SIZE = 256


class WorkCache:
    """A PoCL cache directory that only this process uses. A program in it is known by its place, ``XX/YYY``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._seeded: set[str] = set()

    def seed(self, user: str, since: float) -> None:
        """Copy the bitcode that the user's PoCL built since a time: a build from source is 20 times faster with it."""
        for place in _programs(user):
            with suppress(OSError):
                touched = os.lstat(f"{user}/{place}/{ACCESSED}").st_mtime
                if place not in self._seeded and touched >= since:
                    self._seeded.add(place)
                    self.seed_one(user, place)

    def seed_one(self, user: str, place: str) -> None:
        """Copy the bitcode of one program, if it is there and whole."""
        content = _trusted_content(f"{user}/{place}/{BITCODE}")
        if not bitcode_fault(content):
            _write(f"{self.path}/{place}/{BITCODE}", content)

    def used(self) -> str:
        """Return the place of the program that was built; raise `ValueError` unless there is exactly one."""
        places = _programs(self.path)
        if len(places) != 1:
            raise ValueError(f"{len(places)} programs in PoCL's cache where one was built")
        return places[0]

    def plant(self, place: str, files: Mapping[str, bytes]) -> None:
        """Write files into the program's directory."""
        for path, content in files.items():
            _write(f"{self.path}/{place}{path}", content)

    def plant_stubs(self, place: str, kernels: Iterable[str]) -> list[str]:
        """Put a stub where PoCL looks for the generic function of each kernel, unless it is there; return the stubs' paths.

        A kernel with a long name gets none, since versions of PoCL differ in its path: PoCL compiles its function.
        """
        stubs = []
        for kernel in kernels:
            path = f"/{kernel}/{GENERIC}/{kernel}.so"
            target = f"{self.path}/{place}{path}"
            if len(kernel) <= _LONGEST_NAME and not os.path.exists(target):
                _write(target, stub(f"_pocl_kernel_{kernel}_workgroup"))
                stubs.append(path)
        return stubs

    def files(self, place: str) -> dict[str, bytes]:
        """Return every file of the program by its path."""
        root = f"{self.path}/{place}"
        contents = {}
        for folder, _, names in os.walk(root):
            for name in names:
                path = f"{folder}/{name}"
                contents[path[len(root) :]] = _trusted_content(path)
        return contents

    def clear(self) -> None:
        """Remove the programs that were built; bitcode that was only copied stays."""
        for place in _programs(self.path):
            self.forget(place)

    def wipe(self) -> None:
        """Remove all programs, the copied bitcode too."""
        for name in os.listdir(self.path):
            self.forget(name)

    def forget(self, place: str) -> None:
        """Remove a program's folder."""
        shutil.rmtree(f"{self.path}/{place}", ignore_errors=True)


def specialised_files(user: str, place: str) -> dict[str, bytes]:
    """Return path -> content of the specialised code that the user's PoCL made for a program.

    Only undamaged libraries count, in regular files that only this user can write.
    """
    contents = {}
    for path in specialised_paths(user, place):
        content = _trusted_content(f"{user}/{place}{path}")
        if content and not library_fault(content):
            contents[path] = content
    return contents


def has_code(kernels: Iterable[str], sizes: Mapping[str, object]) -> bool:
    """Return True if each kernel has specialised code; the keys of `sizes` are the folders of `sizes_by_kernel`."""
    return all(any(is_folder_of(folder, kernel) for folder in sizes) for kernel in kernels)


def damaged(folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of each damaged file below folders of PoCL's cache, with a description; other files are skipped."""
    for folder in folders:
        for place, folders_in, names in os.walk(folder):
            for name in [*names, *folders_in]:
                if name == BITCODE or is_code(name):
                    path = os.path.join(place, name)
                    if reason := _fault(path):
                        yield path, reason


def library_fault(content: bytes) -> str:
    """Describe the damage of a shared library; empty if it is whole, and on systems without ELF."""
    if not content:
        return "it is empty"
    if sys.platform != "linux":
        return ""
    if len(content) < 64 or content[:6] != b"\x7fELF\x02\x01":
        return "it is no shared library"
    (start,) = struct.unpack_from("<Q", content, 40)
    size, count = struct.unpack_from("<HH", content, 58)
    # The section table is the last part of a library.
    return "" if 0 < start <= start + size * count <= len(content) else "it is cut short"


def bitcode_fault(content: bytes) -> str:
    """Describe the damage of LLVM bitcode; empty if its last block ends exactly at the end of the file."""
    if not content:
        return "it is empty"
    if content[:4] != b"BC\xc0\xde" or len(content) % 4:
        return "it is no bitcode" if content[:4] != b"BC\xc0\xde" else "it is cut short"
    words = struct.unpack(f"<{len(content) // 4}I", content)
    position, blocks = 1, set()
    while position < len(words):
        # The first word of a block: two bits that say so, the block's number, the width of its codes. The second word
        # has its length.
        if words[position] & 3 != _ENTER_BLOCK:
            return "it is no chain of blocks"
        blocks.add(words[position] >> 2 & 0xFF)
        position += 2 + words[position + 1] if position + 1 < len(words) else len(words)
    return "" if position == len(words) and blocks >= _NEEDED else "it is cut short"


def _fault(path: str) -> str:
    """Describe the damage of a file; empty if it is whole, missing, or not readable for this user."""
    try:
        with trust.open_to_read(path) as stream:
            # `read` returns None for an empty FIFO.
            content = stream.read() or b""
    except (FileNotFoundError, PermissionError):
        return ""
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return bitcode_fault(content) if path.endswith(BITCODE) else library_fault(content)


def _programs(cache: str) -> list[str]:
    """Return the places of the programs that were built with a cache directory."""
    marks = glob.glob(f"??/*/{ACCESSED}", root_dir=cache)
    return [os.path.dirname(path) for path in marks]


def _trusted_content(path: str) -> bytes:
    """Return the content of a file that only this user can write; empty if there is none."""
    with suppress(OSError):
        return trust.read(path, trust.LARGEST)[0]
    return b""


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(content)


def stub(symbol: str) -> bytes:
    """Return a small shared library for this machine that defines `symbol`, without code.

    When PoCL is asked for a binary, it opens the library and looks the symbol up, but does not call it. Raises `ValueError`
    if the running program is not a 64-bit little-endian ELF file.
    """
    own = b""
    with suppress(OSError), process.proc("self/exe") as stream:
        own = stream.read(64)
    if own[:6] != b"\x7fELF\x02\x01":
        raise ValueError("this machine's programs are not 64-bit little-endian ELF files")
    machine, flags = own[18:20], own[48:52]
    form, ident = "<16sH2sIQQQ4s6H", b"\x7fELF\x02\x01\x01"
    header = struct.pack(form, ident, 3, machine, 1, 0, 64, 0, flags, 64, 56, 3, 0, 0, 0)
    rows = [struct.pack(form, *numbers) for form, *numbers in _STUB]
    return b"".join([header, *rows, f"\0{symbol}".encode("ascii").ljust(_NAMES_SIZE, b"\0")])
