"""Bundles: the entries of a cache in one file, compressed together.

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

The records stand in the order of kind and address: so equal contents are equal bytes, and the compressor finds entries
of one kind near each other. A kind is the name of a layer. A reader skips the kinds that it does not know.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kcl.errors import CacheFault, DamagedEntry

MAGIC = b"kclbundl"
FORMAT = 1
COUNT_LIMIT = 1 << 16  # records
LENGTH_LIMIT = 1 << 30  # bytes of all records
ENTRY_LIMIT = 64 << 20  # bytes of an entry in a bundle
_MEMORY = 64 << 20  # bytes that liblzma may use
_PIECE = 64 << 10
_HEAD = struct.Struct("<8sIIQ")
_SIZES = struct.Struct("<BHI")
_START = _HEAD.size + hashlib.sha256().digest_size


class BundleRecord(NamedTuple):
    """One entry of a bundle: the name of its layer, its address there, and its bytes."""

    kind: str
    address: str
    blob: bytes


def write(records: Iterable[BundleRecord]) -> bytes:
    """Return the bundle of records; raises CacheFault above the limits, or without the module lzma."""
    chosen = sorted(records)
    length = sum(_SIZES.size + sum(map(len, record)) for record in chosen)
    if len(chosen) > COUNT_LIMIT or length > LENGTH_LIMIT:
        limits = f"{COUNT_LIMIT} entries and {LENGTH_LIMIT} bytes"
        raise CacheFault(
            f"{len(chosen)} entries of {length} bytes are above the limits of {limits}: name kernels"
        )
    lzma = _lzma()
    # This preset has a window of 1 MiB.
    packer = lzma.LZMACompressor(lzma.FORMAT_XZ, check=lzma.CHECK_NONE, preset=1)
    pieces = []
    for record in chosen:
        sizes = _SIZES.pack(*map(len, record))
        pieces.append(
            packer.compress(
                b"".join((sizes, record.kind.encode(), record.address.encode(), record.blob))
            )
        )
    stream = b"".join((*pieces, packer.flush()))
    head = _HEAD.pack(MAGIC, FORMAT, len(chosen), length)
    return b"".join((head, hashlib.sha256(head + stream).digest(), stream))


def read(data: bytes) -> Iterator[BundleRecord]:
    """Yield the records of a bundle; raises DamagedEntry where it does not fit, CacheFault for a later format."""
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
    plain = _Plain(stream, length)
    for _ in range(count):
        of_kind, of_address, size = _SIZES.unpack(plain.take(_SIZES.size))
        if size > ENTRY_LIMIT:
            raise DamagedEntry(f"an entry claims {size} bytes, above the limit of {ENTRY_LIMIT}")
        name = plain.take(of_kind + of_address).decode("latin-1")
        yield BundleRecord(name[:of_kind], name[of_kind:], plain.take(size))
    plain.end()


class _Plain:
    """The decompressed stream, in the pieces that a reader takes."""

    def __init__(self, stream: memoryview, length: int) -> None:
        self._lzma = _lzma()
        self._reader = self._lzma.LZMADecompressor(self._lzma.FORMAT_XZ, memlimit=_MEMORY)
        self._stream, self._left = stream, length

    def take(self, size: int) -> bytes:
        """Return the next bytes; raises DamagedEntry if fewer are left."""
        # The claim is compared before anything is decompressed, so a false size takes no memory.
        self._left -= size
        content = bytearray()
        while len(content) < size and self._left >= 0:
            content += self._next(size - len(content))
        if self._left < 0:
            raise DamagedEntry(f"a record claims {size} bytes, {-self._left} more than are left")
        return bytes(content)

    def end(self) -> None:
        """Raise DamagedEntry unless the stream ends here."""
        while not self._reader.eof and not self._left:
            self._left += len(self._next(1))
        if self._left or self._reader.unused_data or self._stream:
            raise DamagedEntry("the bundle goes on behind its last record")

    def _next(self, most: int) -> bytes:
        # The decompressor gets bytes only when it asks for some.
        piece = self._stream[: _PIECE * self._reader.needs_input]
        self._stream = self._stream[len(piece) :]
        if self._reader.eof or (self._reader.needs_input and not piece):
            raise DamagedEntry("the bundle ends inside a record")
        try:
            # `most` bounds the memory, however far a stream expands.
            return bytes(self._reader.decompress(piece, most))
        except (self._lzma.LZMAError, MemoryError) as error:
            raise DamagedEntry(f"the bundle cannot be decompressed: {error}") from error


def _lzma() -> Any:
    try:
        import lzma
    except ImportError as error:
        raise CacheFault(
            "this Python has no module lzma, which bundles need: install a Python with it"
        ) from error
    return lzma
