"""Entries: the full key, metadata and named byte parts under one digest; the same bytes in every store.

    entry          = fixed header body              exactly, nothing follows
    fixed          = magic format header-length body-length header-digest total-digest
    magic          = "kclentry"                     8 bytes
    format         = u32                            all numbers little-endian
    header-length  = body-length = u64
    header-digest  = SHA-256 of magic format header-length body-length header
    total-digest   = SHA-256 of magic ... header-digest header body
    header         = JSON with nothing around it, UTF-8 ("surrogatepass"):
                     {"key": [[name, value], ...], "metadata": {...}, "parts": parts}
    parts          = [[name, size] or [name, size, [stored, ...]], ...]
    body           = the bytes of the parts, in the order of "parts"

Lengths and digests are checked before parsing and decompression. The header has a digest of its own, so that a listing
need not read the binaries. With one release of zlib, equal entries have equal bytes. Format 1 had no pieces.

A part that compression shrinks is stored in pieces of 16 KiB; the last piece is shorter. "stored" lists the stored
bytes of each piece: a piece with fewer bytes than its content is compressed (zlib), any other is plain. A piece is
compressed if that leaves less than half of it and saves more than two kilobytes, since starting zlib costs as much as
decompressing one. In programs these are the symbols and the padding, seldom the code. Any other part is stored plain.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from kcl.cache.key import Key
from kcl.cache.stores import digest_of
from kcl.errors import DamagedEntry

MAGIC = b"kclentry"
FORMAT = 2
# The largest known header has 3 KiB.
HEADER_LIMIT = 1 << 20
ENTRY_LIMIT = 1 << 30
PIECE = 16 << 10
# The most bytes of all parts in pieces, so that a small entry cannot unpack to a huge one.
PIECES_LIMIT = 64 << 20

_LENGTHS = struct.Struct("<8sIQQ")
_HEADER_DIGEST_END = _LENGTHS.size + 32
FIXED_SIZE = _HEADER_DIGEST_END + 32

# The pieces of each part: (bytes in the body, bytes of the part).
Layout = dict[str, list[tuple[int, int]]]


class Entry:
    """A key, metadata (JSON values by name) and named parts (bytes), which are packed and unpacked together."""

    __slots__ = ("key", "metadata", "parts", "ready")

    def __init__(self, key: Key, metadata: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        self.key = key
        self.metadata = dict(metadata)
        self.parts = dict(parts)
        # A value that a stage made from the entry and keeps with it in memory.
        self.ready: Any = None

    def pack(self, in_pieces: bool = True) -> bytes:
        """Encode the entry by the grammar above; raise `ValueError` or `TypeError` for values that JSON cannot hold.

        Without pieces all parts are plain: a bundle compresses its entries together.
        """
        # Imported late: a process that only hits does without it.
        from kcl.cache import packing

        parts, body = packing.lay_out(self.parts, PIECE, PIECES_LIMIT if in_pieces else 0)
        header = packing.header(self.key, self.metadata, parts)
        if len(header) > HEADER_LIMIT or FIXED_SIZE + len(header) + len(body) > ENTRY_LIMIT:
            limits = f"the limits of {HEADER_LIMIT} for its header and {ENTRY_LIMIT} in all"
            raise ValueError(f"an entry of {len(header)} + {len(body)} bytes is above {limits}")
        lengths = _LENGTHS.pack(MAGIC, FORMAT, len(header), len(body))
        start = lengths + hashlib.sha256(lengths + header).digest()
        total = hashlib.sha256(start)
        total.update(header)
        total.update(body)
        return b"".join((start, total.digest(), header, body))

    @classmethod
    def unpack(cls, blob: bytes, expected: Key | None = None) -> Entry:
        """Decode an entry; raise `DamagedEntry` if the bytes are damaged, or if the key is not the `expected` one.

        The header is parsed only if the digest over all bytes is right, so damage never reaches the parser.
        """
        end = header_end(blob, len(blob))
        header = blob[FIXED_SIZE:end]
        # The total digest covers everything but itself.
        total = hashlib.sha256(blob[:_HEADER_DIGEST_END])
        # A view, since a slice would copy the binaries.
        total.update(memoryview(blob)[FIXED_SIZE:])
        if total.digest() != blob[_HEADER_DIGEST_END:FIXED_SIZE]:
            raise DamagedEntry("the digest over the entry does not fit its bytes")
        encoded, metadata, layout = _read_header(header, len(blob) - end)
        key = key_from(encoded, expected)
        if expected is not None and key != expected:
            raise DamagedEntry(
                f"the entry is that of another key: {key.digest}, not {expected.digest}"
            )
        return cls(key, metadata, _cut_parts(blob, end, layout))

    def with_metadata(self, **metadata: Any) -> Entry:
        """Return a copy with these metadata replaced."""
        return Entry(self.key, {**self.metadata, **metadata}, self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.pack() == other.pack()

    __hash__ = None  # type: ignore[assignment]


def entry_at(address: str, blob: bytes, key: Key | None = None) -> Entry:
    """Decode and verify the bytes that a store has at an address.

    Every entry from a store passes here before its use. Raises DamagedEntry for bytes that differ from the written ones,
    and for an entry of another key than `key` or, without it, than the address names.
    """
    entry = Entry.unpack(blob, key)
    if key is None and entry.key.digest != digest_of(address):
        raise DamagedEntry(f"the entry at {address} is that of another key: {entry.key.digest}")
    return entry


def recorded_seconds(entry: Entry) -> float:
    """Return the seconds that making the entry took; 0 if the entry does not record them."""
    seconds = entry.metadata.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0


def signers(metadata: Mapping[str, Any]) -> list[str]:
    """Return the ids of the signing keys with which an entry, or a part of it, came from a remote."""
    ids = metadata.get("signers")
    return list(map(str, ids)) if isinstance(ids, list) else []


def origin(before: Entry | None) -> dict[str, list[str]]:
    """Return the metadata that an entry inherits from the earlier entry it is made from: its signers, if any."""
    return {"signers": ids} if before and (ids := signers(before.metadata)) else {}


def peek(start: bytes, size: int, marker: bytes = b"") -> tuple[bytes, dict[str, Any]] | None:
    """Return key and metadata of an entry of `size` bytes from its first bytes, which must hold the header.

    Only the header is verified, not the parts: this is for listings, never for a hit. The key stays JSON (see `key_from`),
    since parsing keys costs the most. Returns None, without parsing, if the header does not contain `marker`. Raises
    `DamagedEntry`.
    """
    end = header_end(start, size)
    header = start[FIXED_SIZE:end]
    digest = hashlib.sha256(start[: _LENGTHS.size] + header).digest()
    if digest != start[_LENGTHS.size : _HEADER_DIGEST_END]:
        raise DamagedEntry("the digest over the entry's header does not fit its bytes")
    return _read_header(header)[:2] if marker in header else None


def key_from(encoded: bytes, expected: Key | None = None) -> Key:
    """Decode the JSON of a key from `peek`; if it equals `expected`, return that object instead of a second one."""
    try:
        parts = tuple(map(tuple, _loads(encoded.decode("utf-8", "surrogatepass"))))
        if expected is not None and parts == expected.parts:
            # Equal to a key, so its parts have the right types.
            return expected
        if not all(
            len(part) == 2 and type(part[0]) is str and type(part[1]) is str for part in parts
        ):
            raise TypeError("a key is a list of pairs of texts")
        return Key((name, value) for name, value in parts)
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedEntry(f"the entry's key cannot be read: {error!r}") from error


def header_end(start: bytes, size: int | None = None) -> int:
    """Return the offset at which an entry's header ends, from the entry's first bytes; raise `DamagedEntry`.

    If `size` is given, it must be the size that the lengths give for the whole entry.
    """
    if len(start) < FIXED_SIZE:
        raise DamagedEntry(
            f"the entry ends after {len(start)} bytes, inside its first {FIXED_SIZE}"
        )
    magic, version, header_length, body_length = _LENGTHS.unpack_from(start)
    if magic != MAGIC:
        raise DamagedEntry(f"this is no kcl entry: it starts with {magic!r}")
    if not 0 < version <= FORMAT:
        raise DamagedEntry(f"the entry has format {version}; this kcl reads formats 1 to {FORMAT}")
    end = FIXED_SIZE + int(header_length)
    expected = end + body_length
    if header_length > HEADER_LIMIT or expected > ENTRY_LIMIT:
        raise DamagedEntry(
            f"the entry claims {header_length} of {expected} bytes for its header, above the limit"
        )
    if size is not None and size != expected:
        raise DamagedEntry(f"the entry has {size} bytes where its lengths say {expected}")
    return end


def _read_header(
    header: bytes, body_length: int | None = None
) -> tuple[bytes, dict[str, Any], Layout]:
    """Return the key, still in JSON, the metadata and the pieces of each part; raise `DamagedEntry`.

    Without the length of a body the parts are not read.
    """
    # The members must be exactly those of the grammar: a missing, additional or mistyped one raises one of the errors
    # below. The separator cannot occur inside a JSON string, where its quotation marks would be escaped.
    key, _, rest = header.partition(b',"metadata":{')
    try:
        document = _loads('{"metadata":{' + rest.decode("utf-8", "surrogatepass"))
        metadata, parts = document.pop("metadata"), document.pop("parts")
        layout = {} if body_length is None else _read_parts(parts)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DamagedEntry(f"the entry's header cannot be read: {error!r}") from error
    is_exact = key.startswith(b'{"key":') and type(metadata) is dict and not document
    if not is_exact or sum([stored for pieces in layout.values() for stored, _ in pieces]) != (
        body_length or 0
    ):
        raise DamagedEntry(
            "the entry's header does not have the members, types and sizes of its format"
        )
    return key[7:], metadata, layout


def _loads(text: str) -> Any:
    """Parse a JSON text with nothing around it; raise ValueError for anything else, NaN and infinities too."""
    value, end = _scan(text)
    if end != len(text):
        raise ValueError(f"after the JSON value, at character {end}, something follows")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"JSON does not have {constant}")


_scan = json.JSONDecoder(parse_constant=_refuse).raw_decode


def _read_parts(described: Any) -> Layout:
    """Return the pieces of each part from "parts" of the header; raise TypeError or ValueError if they are wrong."""
    if type(described) is not list:
        raise TypeError(f"parts are a list, not {type(described).__name__}")
    layout: Layout = {}
    unpacked = 0
    for name, size, *pieces in described:
        if (
            type(name) is not str
            or type(size) is not int
            or size < 0
            or name in layout
            or len(pieces) > 1
        ):
            raise TypeError(f"not a part: {name!r}, {size!r}")
        if not pieces:
            layout[name] = [(size, size)]
            continue
        unpacked += size
        if unpacked > PIECES_LIMIT:
            raise ValueError(f"the parts claim more than {PIECES_LIMIT} bytes in pieces")
        whole = [min(PIECE, size - start) for start in range(0, size, PIECE)]
        (sizes,) = pieces
        if (
            type(sizes) is not list
            or len(sizes) != len(whole)
            or not set(map(type, sizes)) <= {int}
        ):
            raise TypeError(f"not the pieces of {size} bytes in {name!r}")
        layout[name] = list(zip(sizes, whole, strict=True))
        if not all(0 < stored <= most for stored, most in layout[name]):
            raise ValueError(f"a piece of {name!r} is larger than what it holds")
    return layout


def _cut_parts(blob: bytes, start: int, layout: Layout) -> dict[str, bytes]:
    """Return the parts of the body, which begins at `start`; raises DamagedEntry if a piece cannot be decompressed."""
    parts = {}
    for name, pieces in layout.items():
        plain = []
        for stored, whole in pieces:
            piece = blob[start : start + stored]
            plain.append(piece if stored == whole else _decompress(piece, whole))
            start += stored
        parts[name] = b"".join(plain)
    return parts


def _decompress(piece: bytes, whole: int) -> bytes:
    """Decompress a piece of `whole` bytes; raises DamagedEntry if it has another length."""
    reader = zlib.decompressobj()
    try:
        plain = reader.decompress(piece, whole)
    except zlib.error as error:
        raise DamagedEntry(f"a piece of the entry cannot be decompressed: {error}") from error
    if len(plain) != whole or not reader.eof or reader.unused_data:
        raise DamagedEntry(f"a piece of the entry does not hold the {whole} bytes that it should")
    return plain
