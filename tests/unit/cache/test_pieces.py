"""kcl.cache.pieces: large parts of an entry are compressed in pieces."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl.cache.entry import Entry, peek, read_header
from kcl.cache.key import Key
from kcl.cache.pieces import LIMIT, PIECE
from kcl.errors import DamagedEntry

NOISE = random.Random(0).randbytes(3 * PIECE)


shrinking = st.builds(
    lambda runs: b"".join(NOISE[start : start + length] if noisy else bytes(length) for start, length, noisy in runs),
    st.lists(st.tuples(st.integers(0, PIECE), st.integers(0, 2 * PIECE), st.booleans()), max_size=4),
)


KEY = Key([("recipe", "axpy"), ("islpy", "2025.2.5")])


SMALL = Entry(KEY, {"seconds": 0.5}, {"source.cl": b"kernel", "empty": b"", "binary": bytes(range(8))})


def envelope(header: bytes, body: bytes = b"", version: int = 2) -> bytes:
    """Wrap any header and body with lengths and digests that fit."""
    lengths = struct.pack("<8sIQQ", b"kclentry", version, len(header), len(body))
    start = lengths + hashlib.sha256(lengths + header).digest()
    return start + hashlib.sha256(start + header + body).digest() + header + body


class TestPieces:
    @settings(max_examples=50)
    @given(st.lists(shrinking, min_size=1, max_size=3))
    def test_round_trip(self, parts: list[bytes]) -> None:
        """Parts that shrink come back as they were, and every reading of the header gives their whole sizes."""
        entry = Entry(KEY, {}, {str(number): part for number, part in enumerate(parts)})
        blob = entry.pack()
        sizes = {name: len(part) for name, part in entry.parts.items()}
        assert Entry.unpack(blob, KEY) == entry
        assert read_header(io.BytesIO(blob), len(blob)).sizes == peek(blob, len(blob))[2] == sizes
        assert len(blob) <= len(SMALL.pack()) + sum(sizes.values()) + 100

    def test_what_is_compressed(self) -> None:
        """A piece is compressed where less than half is left and more than 2 KiB are saved; others lie as they are."""
        noise, padding = NOISE[:PIECE], bytes(PIECE)
        half = noise[: PIECE // 2] + padding[: PIECE // 2]  # what zlib adds makes it more than half
        less = noise[: PIECE // 2 - 100] + padding[: PIECE // 2 + 100]
        blob = Entry(KEY, {}, {"binary": noise + less + half}).pack()
        small = zlib.compress(less)
        assert blob.endswith(noise + small + half)
        assert json.dumps(["binary", 3 * PIECE, [PIECE, len(small), PIECE]], separators=(",", ":")).encode() in blob
        assert Entry(KEY, {}, {"binary": noise + half}).pack().endswith(noise + half)
        size = next(size for size in range(2 << 10, PIECE) if size - len(zlib.compress(bytes(size))) > 2 << 10)
        tail, more = bytes(size - 1), bytes(size)
        assert Entry(KEY, {}, {"binary": padding + tail}).pack().endswith(zlib.compress(padding) + tail)
        assert Entry(KEY, {}, {"binary": padding + more}).pack().endswith(zlib.compress(padding) + zlib.compress(more))
        assert b'["log",2000]' in Entry(KEY, {}, {"log": bytes(2000)}).pack()

    def test_limit(self) -> None:
        """No more than 64 MiB lie in pieces: what comes after them lies as it is."""
        entry = Entry(KEY, {}, {"first": bytes(LIMIT - 4096), "second": bytes(8192), "third": bytes(4096)})
        blob = entry.pack()
        assert 8192 < len(blob) < 200_000
        assert Entry.unpack(blob) == entry

    @pytest.mark.parametrize(
        ("part", "body"),
        [
            (["p", 2000, [20, 20]], bytes(40)),  # one piece too many
            (["p", 2000, []], b""),
            (["p", 2000, [0]], b""),
            (["p", 2000, [2001]], bytes(2001)),
            (["p", 2000, [20.0]], bytes(20)),
            (["p", 2000, [True]], b"?"),
            (["p", 2000, {"0": 20}], bytes(20)),
            (["p", 2000, [20], 1], bytes(20)),
            (["p", 2000, [20]], bytes(20)),  # nothing that was compressed
            (["p", 2000, [len(zlib.compress(bytes(1999)))]], zlib.compress(bytes(1999))),
            (["p", 2000, [len(zlib.compress(bytes(2001)))]], zlib.compress(bytes(2001))),
            (["p", 2000, [len(zlib.compress(bytes(2000))) + 1]], zlib.compress(bytes(2000)) + b"?"),
            (["p", 2000, [len(zlib.compress(bytes(2000))) - 1]], zlib.compress(bytes(2000))[:-1]),
            (["p", 10**18, [20]], bytes(20)),
            (["p", (64 << 20) + 1, [1] * 4097], bytes(4097)),
        ],
    )
    def test_malformed(self, part: list[Any], body: bytes) -> None:
        """Pieces that are not those of the part raise DamagedEntry; no more is decompressed than the part may hold."""
        header = json.dumps({"key": [list(pair) for pair in KEY.parts], "metadata": {}, "parts": [part]}).encode()
        with pytest.raises(DamagedEntry):
            Entry.unpack(envelope(header, body), expected=KEY)
