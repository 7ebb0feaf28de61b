"""Damage in PoCL's own cache, which PoCL does not check: a program that needs a damaged file ends the process.

PoCL keeps no digests, and two builds of one program differ in their bytes. So a file is judged by its form: a library
is an ELF file with its section table inside it, bitcode is a chain of blocks that ends with the file (LLVM's bitstream
format). `kcl.drivers.pocl.repair` compares files with the bytes of an entry.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kcl.base.settings import trust

BITCODE = "program.bc"
_LIBRARY = ".so"
_LARGEST = 256 << 20
_ENTER_BLOCK = 1
_NEEDED = {8, 23}  # the numbers of the blocks for the module and for its names; PoCL's bitcode ends after the latter


class DamagedFile(NamedTuple):
    """A file of PoCL's cache, with the description of its damage."""

    path: str
    reason: str


def damaged(folders: Iterable[str]) -> Iterator[DamagedFile]:
    """Yield the damaged files below folders of PoCL's cache, as `kcl.caches.files` names them; skip others' files."""
    for folder in folders:
        for place, folders_in, names in os.walk(folder):
            for name in [*names, *folders_in]:
                if name == BITCODE or name.endswith(_LIBRARY):
                    reason = _fault(os.path.join(place, name))
                    if reason:
                        yield DamagedFile(os.path.join(place, name), reason)


def library_fault(content: bytes) -> str:
    """Describe the damage of a shared library; empty where it has all its bytes, and on systems without ELF."""
    if not content:
        return "it is empty"
    if sys.platform != "linux":
        return ""
    if len(content) < 64 or content[:6] != b"\x7fELF\x02\x01":
        return "it is no shared library"
    (start,) = struct.unpack_from("<Q", content, 40)
    size, count = struct.unpack_from("<HH", content, 58)
    # the section table is the last part
    return "" if 0 < start <= start + size * count <= len(content) else "it is cut short"


def bitcode_fault(content: bytes) -> str:
    """Describe the damage of LLVM bitcode; empty where its blocks end where the file ends."""
    if not content:
        return "it is empty"
    if content[:4] != b"BC\xc0\xde" or len(content) % 4:
        return "it is no bitcode" if content[:4] != b"BC\xc0\xde" else "it is cut short"
    words = struct.unpack(f"<{len(content) // 4}I", content)
    position, blocks = 1, set()
    while position < len(words):
        # 2 bits that say that a block begins, its number and the width of its codes, up to the end of the word
        if words[position] & 3 != _ENTER_BLOCK:
            return "it is no chain of blocks"
        blocks.add(words[position] >> 2 & 0xFF)
        position += 2 + words[position + 1] if position + 1 < len(words) else len(words)
    return "" if position == len(words) and blocks >= _NEEDED else "it is cut short"


def _fault(path: str) -> str:
    """Describe the damage of a file; empty for a whole one, and for one that is gone or may not be read."""
    try:
        descriptor = os.open(path, trust.READ)
    except (FileNotFoundError, PermissionError):
        return ""
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return "it is no file of PoCL's"
        content = os.read(descriptor, status.st_size)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    finally:
        os.close(descriptor)
    return bitcode_fault(content) if path.endswith(BITCODE) else library_fault(content)
