"""The directories in PoCL's bitcode and logs, and their removal.

PoCL compiles a temporary file in its cache directory, ``<directory>/tempfile_<letters>.cl``. LLVM keeps this path in
the string table of the bitcode, byte by byte, and in the record of the source's name, in characters of 7 or 8 bits that
begin at any bit. The directory is overwritten by as many hyphens: no length and no offset changes, and only messages
and debuggers read the name. Debug information (``-g``) names directories in more forms, and is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_FILE = b"/tempfile_"
_FILLER = b"-"
_IN_LOGS = re.compile(rb"[^\s'\"]*" + _FILE + rb"(?=\w+\.cl\b)")
# The bits of a character, and the bits before the first one.
_FORMS = tuple((width, shift) for width in (7, 8) for shift in range(8))


def overwritten(blob: bytes, directories: Iterable[str]) -> bytes:
    """Return a binary of the same length in which no path of a temporary file names these directories."""
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
    """Return True if the path of a temporary file names a directory."""
    return _count(blob, _FILE) > _count(blob, _FILLER + _FILE)


def without_directories(log: bytes) -> bytes:
    """Return a log that names temporary files without their directories."""
    return _IN_LOGS.sub(_FILE[1:], log)


def _count(blob: bytes, text: bytes) -> int:
    return sum(1 for form in _FORMS for _place in _places(blob, *_packed(text, *form)))


def _packed(text: bytes, width: int, shift: int) -> tuple[bytes, bytes]:
    """Return characters of `width` bits as they lie in bytes after `shift` bits, and the mask of their bits."""
    value = sum(character << width * number for number, character in enumerate(text)) << shift
    mask = ((1 << width * len(text)) - 1) << shift
    size = (shift + width * len(text) + 7) // 8
    return value.to_bytes(size, "little"), mask.to_bytes(size, "little")


def _places(blob: bytes | bytearray, value: bytes, mask: bytes) -> Iterator[int]:
    """Yield the places at which a packed text begins."""
    # The whole bytes; the first and the last one may be shared with other characters.
    inner = value[1:-1]
    place = blob.find(inner, 1) - 1
    while place >= 0:
        there = blob[place : place + len(mask)]
        if bytes(byte & bits for byte, bits in zip(there, mask, strict=False)) == value:
            yield place
        place = blob.find(inner, place + 2) - 1
