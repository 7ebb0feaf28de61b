"""The format of bundles: cache entries in one file, compressed together.

    bundle = head digest stream             exactly, nothing follows
    head   = magic format count length      numbers are little-endian
    magic  = "kclbundl"                     8 bytes
    format = u32
    count  = u32                            of the records
    length = u64                            of the records together, in bytes
    digest = SHA-256 of head and stream
    stream = record*                        in one stream of xz
    record = u8 u16 u32 kind address entry  the lengths of these three come first; kind and address are ASCII
    entry  = as in `kcl.cache.entry`, with no part in pieces

A kind is the name of a layer. A reader skips the kinds that it does not know.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from kcl.errors import CacheFault, DamagedEntry

MAGIC = b"kclbundl"
FORMAT = 1
COUNT_LIMIT = 1 << 16  # records
LENGTH_LIMIT = 1 << 30  # bytes of all records
ENTRY_LIMIT = 64 << 20  # bytes of an entry in a bundle
_HEAD = struct.Struct("<8sIIQ")
_SIZES = struct.Struct("<BHI")
_START = _HEAD.size + hashlib.sha256().digest_size


Record = tuple[str, str, bytes]  # kind, address and bytes of an entry


def write(records: Sequence[Record]) -> bytes:
    """Return the bundle of some records; raises CacheFault if it would be too large, or without the module lzma."""
    length = sum(_SIZES.size + sum(map(len, record)) for record in records)
    if len(records) > COUNT_LIMIT or length > LENGTH_LIMIT:
        limits = f"{COUNT_LIMIT} entries and {LENGTH_LIMIT} bytes"
        raise CacheFault(
            f"{len(records)} entries of {length} bytes are above the limits of {limits}: name kernels"
        )
    lzma, stream = _lzma(), io.BytesIO()
    # Preset 1 compresses fast, with a window of 1 MiB.
    with lzma.LZMAFile(stream, "w", check=lzma.CHECK_NONE, preset=1) as packer:
        for kind, address, blob in records:
            sizes = _SIZES.pack(len(kind), len(address), len(blob))
            packer.write(b"".join((sizes, kind.encode(), address.encode(), blob)))
    head = _HEAD.pack(MAGIC, FORMAT, len(records), length)
    return b"".join((head, hashlib.sha256(head + stream.getvalue()).digest(), stream.getvalue()))


def read(data: bytes) -> Iterator[Record]:
    """Yield the records of a bundle; raises DamagedEntry if it is damaged, CacheFault if its format is a later one."""
    if data[: len(MAGIC)] != MAGIC or len(data) < _START:
        raise DamagedEntry(
            f"this is no bundle of kcl: {len(data)} bytes that start with {data[: len(MAGIC)]!r}"
        )
    _magic, version, count, length = _HEAD.unpack_from(data)
    if version > FORMAT:
        raise CacheFault(
            f"the bundle has format {version}, and this kcl reads format {FORMAT}: install a later kcl"
        )
    stream = memoryview(data)[_START:]
    digest = hashlib.sha256(data[: _HEAD.size])
    digest.update(stream)
    if digest.digest() != data[_HEAD.size : _START]:
        raise DamagedEntry("the digest over the bundle does not fit its bytes")
    if version != FORMAT or count > COUNT_LIMIT or length > LENGTH_LIMIT:
        raise DamagedEntry(
            f"the bundle claims format {version} and {count} entries of {length} bytes"
        )
    lzma = _lzma()
    try:
        with lzma.LZMAFile(io.BytesIO(stream)) as plain:
            for _ in range(count):
                sizes = _SIZES.unpack(_take(plain, _SIZES.size))
                length -= _SIZES.size + sum(sizes)
                # The sizes are checked before the entry is decompressed, so that false ones cost no memory.
                if length < 0 or sizes[-1] > ENTRY_LIMIT:
                    raise DamagedEntry(f"an entry claims {sizes[-1]} bytes, more than there can be")
                kind, address, blob = (_take(plain, size) for size in sizes)
                yield kind.decode("latin-1"), address.decode("latin-1"), blob
            if plain.read(1):
                raise DamagedEntry("the bundle goes on behind its last record")
    except (lzma.LZMAError, EOFError, MemoryError) as error:
        raise DamagedEntry(f"the bundle cannot be decompressed: {error}") from error


def _take(plain: Any, size: int) -> bytes:
    piece: bytes = plain.read(size)
    if len(piece) < size:
        raise EOFError("it ends inside a record")
    return piece


def _lzma() -> Any:
    try:
        import lzma
    except ImportError as error:
        raise CacheFault(
            "this Python has no module lzma, which bundles need: install a Python with it"
        ) from error
    return lzma
