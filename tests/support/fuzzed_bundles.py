"""Bundles that are flipped, cut, swapped, and rewritten with right digests: `fuzzed_bundles.py FILE SEED COUNT`.

Prints as JSON how many of each sort were loaded, how many entries came of them, and the memory of the process in MB.
"""

from __future__ import annotations

import collections
import hashlib
import json
import lzma
import random
import resource
import struct
import sys
import warnings

import kcl
from kcl.bundle import contents
from kcl.bundle.format import BundleRecord, read
from kcl.bundle.info import CacheInfo
from kcl.errors import CacheFault

HEAD, SIZES = struct.Struct("<8sIIQ"), struct.Struct("<BHI")
LARGE = (0, 1, 255, 65535, 1 << 20, 1 << 26, 1 << 31, (1 << 32) - 1)


def right(count: int, length: int, stream: bytes) -> bytes:
    """Return a bundle with the digest that fits it."""
    head = HEAD.pack(b"kclbundl", 1, count & 0xFFFFFFFF, length)
    return head + hashlib.sha256(head + stream).digest() + stream


def packed(text: bytes) -> bytes:
    return lzma.compress(text, preset=0)


def plain(records: list[BundleRecord]) -> bytes:
    return b"".join(
        SIZES.pack(len(kind), len(at), len(blob)) + kind.encode() + at.encode() + blob for kind, at, blob in records
    )


class Fuzz:
    """Makes bad bundles of a good one."""

    def __init__(self, data: bytes, drawn: random.Random) -> None:
        self.data, self.drawn = data, drawn
        self.records = list(read(data))
        self.text = plain(self.records)

    def flipped(self) -> bytes:
        """Bits of the bundle."""
        return self._flip(self.data)

    def cut(self) -> bytes:
        """An end that is missing, or more of it."""
        end = self.drawn.randrange(len(self.data))
        return self.data[:end] if self.drawn.random() < 0.8 else self.data + self.data[:end]

    def swapped(self) -> bytes:
        """Entries under each other's address, or kind, with right lengths and digests."""
        found = list(self.records)
        one, other = self.drawn.randrange(len(found)), self.drawn.randrange(len(found))
        field = self.drawn.choice(("kind", "address", "blob"))
        values = getattr(found[other], field), getattr(found[one], field)
        for at, value in zip((one, other), values, strict=True):
            found[at] = found[at]._replace(**{field: value})
        text = plain(found)
        return right(len(found), len(text), packed(text))

    def pieces(self) -> bytes:
        """Two pieces of the bundle exchanged, or of the records, under a right digest."""
        if self.drawn.random() < 0.5:
            return self._exchange(self.data)
        text = self._exchange(self.text)
        return right(len(self.records), len(text), packed(text))

    def lengths(self) -> bytes:
        """Lengths inside that say something else, under a right digest."""
        text, place = bytearray(self.text), 0
        at = self.drawn.randrange(len(self.records))
        for record in self.records[:at]:
            place += SIZES.size + sum(map(len, record))
        sizes = list(SIZES.unpack_from(text, place))
        field = self.drawn.randrange(3)
        sizes[field] = (self.drawn.choice(LARGE) + self.drawn.randrange(3)) & (0xFF, 0xFFFF, 0xFFFFFFFF)[field]
        SIZES.pack_into(text, place, *sizes)
        return right(len(self.records), len(text), packed(bytes(text)))

    def promised(self) -> bytes:
        """Another count, or another length of all, under a right digest."""
        count = len(self.records) + self.drawn.choice((-1, 1, 1 << 15, 1 << 20))
        length = len(self.text) + self.drawn.choice((-1, 1, 1 << 20, 100 << 30))
        stream = packed(self.text)
        return self.drawn.choice((right(count, len(self.text), stream), right(len(self.records), length, stream)))

    def inside(self) -> bytes:
        """Bits inside the entries, under a right digest of the bundle."""
        text = self._flip(self.text)
        return right(len(self.records), len(text), packed(text))

    def stream(self) -> bytes:
        """Bits of the compressed stream, under a right digest."""
        return right(len(self.records), len(self.text), self._flip(packed(self.text)))

    def zeros(self) -> bytes:
        """A record of many zeros."""
        size = self.drawn.choice((1 << 20, 1 << 24, 1 << 26))
        text = SIZES.pack(9, 64, size) + b"generator" + b"0" * 64 + bytes(size)
        return right(1, len(text), packed(text))

    def _flip(self, data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(self.drawn.randrange(1, 6)):
            found[self.drawn.randrange(len(found))] ^= 1 << self.drawn.randrange(8)
        return bytes(found)

    def _exchange(self, data: bytes) -> bytes:
        a, b, c, d = sorted(self.drawn.randrange(len(data)) for _ in range(4))
        return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def main(file: str, seed: str, count: str) -> None:
    """Load bad bundles; whatever comes of them must be an entry of the good one."""
    warnings.simplefilter("ignore", kcl.CacheWarning)
    with open(file, "rb") as stream:
        fuzz = Fuzz(stream.read(), random.Random(int(seed)))
    good = {(kind, entry.key.digest): entry for (kind, _at), entry in contents.unpack(fuzz.data, CacheInfo())}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sorts = ["flipped", "cut", "swapped", "pieces", "lengths", "promised", "inside", "stream"]
    tried: collections.Counter[str] = collections.Counter()
    came: collections.Counter[str] = collections.Counter()
    for number in range(int(count)):
        sort = "zeros" if number % 250 == 0 else fuzz.drawn.choice(sorts)
        data = getattr(fuzz, sort)()
        info = kcl.load_artifacts(data)
        found = []
        try:
            found += list(contents.unpack(data, CacheInfo()))
        except CacheFault:
            assert info.refused, sort
        for (kind, address), entry in found:
            assert entry == good[kind, entry.key.digest], (sort, address)
        tried[sort] += 1
        came[sort] += sum(map(len, info.artifacts.values()))
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10) - before  # a driver may take as much by itself
    print(json.dumps([tried, came, memory]))


if __name__ == "__main__":
    main(*sys.argv[1:])
