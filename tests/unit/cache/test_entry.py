"""kcl.cache.entry: packing, verification and header of entries."""

import contextlib
import hashlib
import json
import random
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl.cache.entry import (
    ENTRY_LIMIT,
    FIXED_SIZE,
    HEADER_LIMIT,
    PIECE,
    PIECES_LIMIT,
    Entry,
    entry_at,
    key_from,
    peek,
)
from kcl.cache.key import Key
from kcl.cache.stores import address
from kcl.errors import DamagedEntry

NOISE = random.Random(0).randbytes(3 * PIECE)
shrinking = st.builds(
    lambda runs: b"".join(
        NOISE[start : start + length] if noisy else bytes(length) for start, length, noisy in runs
    ),
    st.lists(
        st.tuples(st.integers(0, PIECE), st.integers(0, 2 * PIECE), st.booleans()), max_size=4
    ),
)
texts = st.text(st.characters(exclude_categories=()), max_size=8)
keys = st.lists(st.tuples(texts, texts), max_size=5).map(Key)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
entries = st.builds(
    Entry,
    keys,
    st.dictionaries(texts, values, max_size=3),
    st.dictionaries(texts, st.binary(max_size=40), max_size=4),
)

KEY = Key([("recipe", "axpy"), ("islpy", "2025.2.5")])
SMALL = Entry(
    KEY, {"seconds": 0.5}, {"source.cl": b"kernel", "empty": b"", "binary": bytes(range(8))}
)


def envelope(header, body=b"", version=2):
    """Wrap any header and body with lengths and digests that fit."""
    lengths = struct.pack("<8sIQQ", b"kclentry", version, len(header), len(body))
    start = lengths + hashlib.sha256(lengths + header).digest()
    return start + hashlib.sha256(start + header + body).digest() + header + body


def flipped(blob, positions):
    """Yield a blob with each single bit at some positions flipped."""
    for position in positions:
        for bit in range(8):
            yield blob[:position] + bytes([blob[position] ^ 1 << bit]) + blob[position + 1 :]


class TestPack:
    @given(entries)
    def test_round_trip(self, entry):
        """Unpacking gives back key, metadata and parts, in order; the header alone says the same."""
        blob = entry.pack()
        assert Entry.unpack(blob, expected=entry.key) == entry
        key, metadata = peek(blob, len(blob))
        assert (key_from(key), metadata) == (entry.key, entry.metadata)

    def test_the_order_of_metadata_changes_no_byte(self):
        one, other = ({name: {name: 1, "a": 2} for name in names} for names in ("mn", "nm"))
        assert Entry(KEY, one, {"p": b"q"}).pack() == Entry(KEY, other, {"p": b"q"}).pack()

    def test_grammar(self):
        """The bytes are those of the grammar in the module's documentation; format 1, without pieces, is read."""
        header = b'{"key":[["a","b"]],"metadata":{},"parts":[["p",1]]}'
        entry = Entry(Key([("a", "b")]), {}, {"p": b"q"})
        assert entry.pack() == envelope(header, b"q")
        assert Entry.unpack(envelope(header, b"q", version=1)) == entry

    def test_surrogates_are_not_merged(self):
        """Two lone surrogates and the character they would encode remain different keys."""
        pair, character = Key([("\ud800\udc00", "")]), Key([("\U00010000", "")])
        assert Entry.unpack(Entry(pair, {}, {}).pack()).key == pair != character

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes"])
    def test_metadata_that_json_lacks_is_refused(self, value):
        with pytest.raises((ValueError, TypeError)):
            Entry(KEY, {"value": value}, {}).pack()


EMPTY = b'{"key":[],"metadata":{},"parts":[]}'
NO_JSON = [
    b"{",
    b'{"a" 1}',
    b"{} 2",
    b'{"a":NaN}',
    b'{"a":[-Infinity]}',
    b'{"a":01}',
    b'{"a":"\n"}',
]


class TestUnpack:
    def test_damaged(self):
        """No flipped bit, no proper prefix and nothing that follows an entry passes, be it zeros or another entry."""
        blob = SMALL.pack()
        for damaged in (
            *flipped(blob, range(len(blob))),
            *(blob[:length] for length in range(len(blob))),
            *(blob + extra for extra in [*map(bytes, range(1, 65)), blob]),
        ):
            with pytest.raises(DamagedEntry):
                Entry.unpack(damaged)

    def test_other_key_is_rejected(self):
        """A valid entry of another key, or at the address of one, is damage; the message names both digests."""
        other = Key([("recipe", "other")])
        with pytest.raises(DamagedEntry, match=f"{KEY.digest}, not {other.digest}"):
            Entry.unpack(SMALL.pack(), expected=other)
        place = address(KEY.digest, "device", "add")
        assert entry_at(place, SMALL.pack()) == entry_at(place, SMALL.pack(), KEY) == SMALL
        with pytest.raises(DamagedEntry, match="another key"):
            entry_at(address(other.digest, "device", "add"), SMALL.pack())
        with pytest.raises(DamagedEntry):
            entry_at(place, SMALL.pack(), other)

    def test_an_entry_of_a_later_format_is_rejected_with_both_format_numbers(self):
        for version in (0, 3):
            words = f"format {version}; this kcl reads formats 1 to 2"
            with pytest.raises(DamagedEntry, match=words):
                Entry.unpack(envelope(b"{}", version=version))

    def test_lengths_above_the_caps_are_rejected_before_anything_is_read(self):
        for header, body in ((HEADER_LIMIT + 1, 0), (0, ENTRY_LIMIT), (2**64 - 1, 2**64 - 1)):
            blob = struct.pack("<8sIQQ", b"kclentry", 1, header, body) + bytes(64)
            with pytest.raises(DamagedEntry, match="above the limit"):
                Entry.unpack(blob)
            with pytest.raises(DamagedEntry, match="above the limit"):
                peek(blob, len(blob))

    @given(st.binary(max_size=200))
    def test_any_bytes_raise_no_other_error(self, blob):
        for candidate in (blob, b"kclentry" + blob):
            with pytest.raises(DamagedEntry):
                Entry.unpack(candidate)

    @settings(max_examples=50)
    @given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3)), st.binary(max_size=3))
    def test_any_json_header(self, parts, body):
        """Any JSON in place of the lists either is well-formed or raises DamagedEntry."""
        header = json.dumps({"key": parts, "metadata": {}, "parts": parts}).encode()
        with contextlib.suppress(DamagedEntry):
            assert b"".join(Entry.unpack(envelope(header, body)).parts.values()) == body

    @pytest.mark.parametrize(
        "header",
        [
            *(b'{"key":[],"metadata":%s,"parts":[]}' % text for text in NO_JSON),
            *(b" " + EMPTY, EMPTY + b"\n", EMPTY + b"{}"),
        ],
    )
    def test_no_json(self, header):
        """A header that JSON does not have, or with something around it, is damage for each reader."""
        assert Entry.unpack(envelope(EMPTY)).parts == {}
        blob = envelope(header)
        with pytest.raises(DamagedEntry):
            Entry.unpack(blob)
        with pytest.raises(DamagedEntry):
            peek(blob, len(blob))


class TestPieces:
    @settings(max_examples=50)
    @given(st.lists(shrinking, min_size=1, max_size=3))
    def test_parts_that_shrink_come_back_as_they_were(self, parts):
        entry = Entry(KEY, {}, {str(number): part for number, part in enumerate(parts)})
        assert Entry.unpack(entry.pack(), KEY) == entry
        assert len(entry.pack()) <= len(SMALL.pack()) + sum(map(len, parts)) + 100

    def test_what_is_compressed(self):
        """A piece is compressed where less than half is left and more than 2 KiB are saved; others lie as they are."""
        noise, padding = NOISE[:PIECE], bytes(PIECE)
        half = noise[: PIECE // 2] + padding[: PIECE // 2]  # what zlib adds makes it more than half
        less = noise[: PIECE // 2 - 100] + padding[: PIECE // 2 + 100]
        blob = Entry(KEY, {}, {"binary": noise + less + half}).pack()
        small = zlib.compress(less)
        assert blob.endswith(noise + small + half)
        assert f'["binary",{3 * PIECE},[{PIECE},{len(small)},{PIECE}]]'.encode() in blob
        size = 2 << 10
        while size - len(zlib.compress(bytes(size))) <= 2 << 10:
            size += 1
        for rest, kept in ((size - 1, bytes(size - 1)), (size, zlib.compress(bytes(size)))):
            blob = Entry(KEY, {}, {"binary": padding + bytes(rest)}).pack()
            assert blob.endswith(zlib.compress(padding) + kept)
        assert b'["log",2000]' in Entry(KEY, {}, {"log": bytes(2000)}).pack()

    def test_limit(self):
        """No more than 64 MiB lie in pieces: what comes after them lies as it is."""
        parts = {"first": bytes(PIECES_LIMIT - 4096), "second": bytes(8192), "third": bytes(4096)}
        entry = Entry(KEY, {}, parts)
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
    def test_malformed(self, part, body):
        """Pieces that are not those of the part raise DamagedEntry; no more is decompressed than the part may hold."""
        header = json.dumps(
            {"key": [list(pair) for pair in KEY.parts], "metadata": {}, "parts": [part]}
        ).encode()
        with pytest.raises(DamagedEntry):
            Entry.unpack(envelope(header, body), expected=KEY)


class TestReadHeader:
    def test_bits_flipped_in_lengths_header_digest_or_header_are_rejected(self):
        blob = SMALL.pack()
        positions = [*range(FIXED_SIZE - 32), *range(FIXED_SIZE, len(blob) - 14)]
        for damaged in flipped(blob, positions):
            with pytest.raises(DamagedEntry):
                peek(damaged, len(damaged))

    def test_parts_are_not_read(self):
        """The start of an entry up to the end of its header is enough; a header without a mark is not parsed."""
        blob = SMALL.pack()
        assert peek(blob[:-14], len(blob), b'"parts":') == peek(blob, len(blob))
        assert peek(blob, len(blob), b"source code") is None
        blob = envelope(b'{"key":[],"metadata":{},"parts":"none"}')
        assert peek(blob, len(blob)) == (b"[]", {})
        with pytest.raises(DamagedEntry):
            Entry.unpack(blob)
