"""Removes the paths of cache directories from PoCL's bitcode and logs.

PoCL compiles a temporary file in its cache directory, ``<directory>/tempfile_<letters>.cl``. LLVM writes this path into
the bitcode: into the string table as bytes, and into the record of the source's name as characters of 7 or 8 bits that
begin at any bit. The directory is overwritten by as many hyphens, so no length or offset changes. Only messages and
debuggers use the name. Debug information (``-g``) has directories in more forms, and is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_FILE = b"/tempfile_"
_FILLER = b"-"
_IN_LOGS = re.compile(rb"[^\s'\"]*" + _FILE + rb"(?=\w+\.cl\b)")
# (bits of a character, offset in bits of the first character)
_FORMS = tuple((width, shift) for width in (7, 8) for shift in range(8))


def overwritten(blob: bytes, directories: Iterable[str]) -> bytes:
    """Return a copy of a binary in which these directories are overwritten in the paths of temporary files."""
    changed = bytearray(blob)
    for directory in directories:
        name = directory.encode("utf-8", "surrogateescape").rstrip(b"/")
        for width, shift in _FORMS if name and directory.isascii() else _FORMS[8:]:
            value, mask = _packed(name + _FILE, width, shift)
            filler = _packed(_FILLER * len(name) + _FILE, width, shift)[0]
            for place in _places(changed, value, mask):
                for number, (new, bits) in enumerate(zip(filler, mask, strict=True), place):
                    changed[number] = changed[number] & ~bits | new
    return bytes(changed)


def are_left(blob: bytes) -> bool:
    """Return True if a path of a temporary file still has a directory."""
    return _count(blob, _FILE) > _count(blob, _FILLER + _FILE)


def without_directories(log: bytes) -> bytes:
    """Return a log in which temporary files are named without their directories."""
    return _IN_LOGS.sub(_FILE[1:], log)


def _count(blob: bytes, text: bytes) -> int:
    return sum(1 for form in _FORMS for _place in _places(blob, *_packed(text, *form)))


def _packed(text: bytes, width: int, shift: int) -> tuple[bytes, bytes]:
    """Pack characters of `width` bits into bytes, beginning at bit `shift`; return the bytes and the mask of their bits."""
    value = sum(character << width * number for number, character in enumerate(text)) << shift
    mask = ((1 << width * len(text)) - 1) << shift
    size = (shift + width * len(text) + 7) // 8
    return value.to_bytes(size, "little"), mask.to_bytes(size, "little")


def _places(blob: bytes | bytearray, value: bytes, mask: bytes) -> Iterator[int]:
    """Yield the places at which a packed text begins."""
    # Without the first and the last byte, which may hold bits of other characters.
    inner = value[1:-1]
    place = blob.find(inner, 1) - 1
    while place >= 0:
        there = blob[place : place + len(mask)]
        if bytes(byte & bits for byte, bits in zip(there, mask, strict=False)) == value:
            yield place
        place = blob.find(inner, place + 2) - 1
