"""Pieces: how the parts of an entry lie in its body, compressed where that is worth the time.

    parts = [[name, size] or [name, size, [stored, ...]], ...]      as JSON, in the header of an entry

A part that shrinks lies in pieces of 16 KiB, the last one shorter, each in "stored" bytes: as it is where these are as
many as the piece has, else compressed (zlib). A piece is compressed where that leaves less than half of it, and saves
more than two kilobytes, for to start zlib costs as much as to decompress one: in programs the text of symbols and the
padding, seldom the code, and not what is left at the end. Any other part lies as it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from operator import le
from typing import Any

from kcl.errors import DamagedEntry

PIECE = 16 << 10
LIMIT = 64 << 20  # what lies in pieces, in all: a small entry does not unpack to a huge one
_WORTH = 0.5
_LEAST = 2 << 10

Stored = dict[str, list[int]]  # how many bytes the pieces of a part take, for those that lie in pieces


def lay_out(parts: Mapping[str, bytes]) -> tuple[list[tuple[Any, ...]], bytes]:
    """Return what describes the parts, and the body that they make."""
    described: list[tuple[Any, ...]] = []
    body: list[bytes] = []
    room = LIMIT
    for name, part in parts.items():
        pieces = _pieces(part) if _LEAST < len(part) <= room else []
        if pieces:
            described.append((name, len(part), list(map(len, pieces))))
            room -= len(part)
        else:
            described.append((name, len(part)))
        body += pieces or [part]
    return described, b"".join(body)


def read(described: Any) -> tuple[dict[str, int], Stored]:
    """Return the size of each part, and its pieces; raises TypeError or ValueError for what describes no parts."""
    if type(described) is not list:
        raise TypeError(f"parts are a list, not {type(described).__name__}")
    sizes: dict[str, int] = {}
    stored: Stored = {}
    for name, size, *pieces in described:
        if type(name) is not str or type(size) is not int or size < 0 or name in sizes or len(pieces) > 1:
            raise TypeError(f"not a part: {name!r}, {size!r}")
        sizes[name] = size
        if pieces:
            stored[name] = found = pieces[0]
            if type(found) is not list or len(found) != -(-size // PIECE) or not set(map(type, found)) <= {int}:
                raise TypeError(f"not the pieces of {size} bytes in {name!r}")
            if found and not (min(found) > 0 and all(map(le, found, _lengths(size)))):
                raise ValueError(f"a piece of {name!r} is larger than what it holds")
    if sum([sizes[name] for name in stored]) > LIMIT:
        raise ValueError(f"the parts claim more than {LIMIT} bytes in pieces")
    return sizes, stored


def length(sizes: Mapping[str, int], stored: Stored) -> int:
    """Return how many bytes the body has."""
    return sum([sum(stored[name]) if name in stored else size for name, size in sizes.items()])


def cut(blob: bytes, start: int, sizes: Mapping[str, int], stored: Stored) -> dict[str, bytes]:
    """Return the parts of the body that begins at `start`; raises DamagedEntry for a piece that does not unpack."""
    parts = {}
    for name, size in sizes.items():
        if name in stored:
            found = []
            for whole, piece in zip(_lengths(size), stored[name], strict=True):
                one = blob[start : start + piece]
                found.append(one if piece == whole else _unpacked(one, whole))
                start += piece
            parts[name] = b"".join(found)
        else:
            parts[name] = blob[start : start + size]
            start += size
    return parts


def _lengths(size: int) -> list[int]:
    """Return how long the pieces of so many bytes are."""
    whole, rest = divmod(size, PIECE)
    return [PIECE] * whole + [rest] * (rest > 0)


def _pieces(part: bytes) -> list[bytes]:
    """Cut a part into pieces, compressed where that is worth it; there are none where it is not worth it anywhere."""
    whole = [part[start : start + PIECE] for start in range(0, len(part), PIECE)]
    small = [zlib.compress(piece) for piece in whole]
    stored = [one if _is_worth(len(one), len(piece)) else piece for one, piece in zip(small, whole, strict=True)]
    return stored if sum(map(len, stored)) < len(part) else []


def _is_worth(small: int, whole: int) -> bool:
    return small < _WORTH * whole and small + _LEAST < whole


def _unpacked(piece: bytes, whole: int) -> bytes:
    """Decompress a piece, and no more than it may hold."""
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(piece, whole)
    except zlib.error as error:
        raise DamagedEntry(f"a piece of the entry cannot be decompressed: {error}") from error
    if len(found) != whole or not reader.eof or reader.unused_data:
        raise DamagedEntry(f"a piece of the entry does not hold the {whole} bytes that it should")
    return found
