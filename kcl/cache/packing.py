"""Packs the header and the body of an entry by the grammar of `kcl.cache.entry`. Only a process that stores imports it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcl.cache.key import Key

# A piece is compressed if at most this fraction of it is left and at least this many bytes are saved.
_WORTH = 0.5
_LEAST = 2 << 10


def header(key: Key, metadata: Mapping[str, Any], parts: list[tuple[Any, ...]]) -> bytes:
    """Return the bytes of a header; raise TypeError or ValueError for values that JSON cannot hold."""
    for part in key.parts:
        if not (isinstance(part.name, str) and isinstance(part.value, str)):
            raise TypeError(f"a key holds texts only: {part!r}")
    document = {"key": key.parts, "metadata": metadata, "parts": parts}
    # `ensure_ascii` would write a character and the two lone surrogates that encode it as the same escapes. Names are
    # sorted, so that equal entries have equal bytes.
    text = json.dumps(
        document, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode("utf-8", "surrogatepass")


def lay_out(
    parts: Mapping[str, bytes], piece: int, room: int
) -> tuple[list[tuple[Any, ...]], bytes]:
    """Return "parts" of the header, and the body.

    Parts that compression shrinks are cut into pieces of `piece` bytes, as long as such parts together have at most `room`
    bytes.
    """
    described: list[tuple[Any, ...]] = []
    body: list[bytes] = []
    for name, part in parts.items():
        pieces = [part[start : start + piece] for start in range(0, len(part), piece)]
        stored = list(map(_packed, pieces)) if _LEAST < len(part) <= room else pieces
        if sum(map(len, stored)) < len(part):
            described.append((name, len(part), list(map(len, stored))))
            room -= len(part)
        else:
            described.append((name, len(part)))
        body += stored
    return described, b"".join(body)


def _packed(piece: bytes) -> bytes:
    """Compress a piece if that saves enough."""
    small = zlib.compress(piece)
    return small if len(small) < _WORTH * len(piece) and len(small) + _LEAST < len(piece) else piece
