"""kcl.bundle.format: the grammar of a bundle, and what is read of bytes that do not fit it."""

import contextlib
import hashlib
import lzma
import pathlib
import random
import struct
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl.bundle import format as grammar
from kcl.bundle.format import read, write
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.errors import CacheFault, DamagedEntry

FIXTURE = pathlib.Path(__file__).parent / "version-1.kclb"
HEAD = struct.Struct("<8sIIQ")


def entry(number: int) -> Entry:
    """Return an entry number so-and-so, of a few hundred bytes."""
    parts = {"source.cl": b"kernel %d;" % number * 20}
    return Entry(Key([("number", str(number))]), {"kernel": f"k{number}"}, parts)


def record(number: int, kind: str = "generator") -> tuple:
    return (kind, entry(number).key.digest, entry(number).pack(in_pieces=False))


def right(head: tuple[bytes, int, int, int], stream: bytes) -> bytes:
    """Return a bundle with this head and stream, and the digest that fits them."""
    packed = HEAD.pack(*head)
    return packed + hashlib.sha256(packed + stream).digest() + stream


def plain(records: list[tuple]) -> bytes:
    return b"".join(
        struct.pack("<BHI", *map(len, record)) + f"{kind}{address}".encode() + blob
        for record in records
        for kind, address, blob in [record]
    )


class TestRoundTrip:
    def test_records(self):
        """The records come back in their order, and equal ones are equal bytes; a bundle of nothing is a bundle."""
        records = [record(3), record(1), record(2, "binary"), ("shapes", "a", b"")]
        for some in (records, []):
            assert list(read(write(some))) == some
            assert write(list(read(write(some)))) == write(some)

    def test_grammar(self):
        text = plain([record(1), record(2)])
        found = right((b"kclbundl", 1, 2, len(text)), lzma.compress(text))
        assert list(read(found)) == [record(1), record(2)]

    def test_across_entries(self):
        """Entries are compressed together: many that are alike cost little more than one."""
        rows = [random.Random(1).randbytes(20000) + b"%d" % number for number in range(40)]
        entries = [
            Entry(Key([("n", str(number))]), {}, {"binary": row}) for number, row in enumerate(rows)
        ]
        records = [("binary", one.key.digest, one.pack(in_pieces=False)) for one in entries]
        assert len(write(records)) < 2 * len(write(records[:1]))

    def test_version_1(self):
        """The bundle of version 1 that is kept as a file is read for ever, with its entries."""
        found = [
            (kind, address, Entry.unpack(blob))
            for kind, address, blob in read(FIXTURE.read_bytes())
        ]
        numbers = [*(("generator", entry(number)) for number in range(5)), ("binary", entry(5))]
        wanted = [(kind, one.key.digest, one) for kind, one in numbers]
        assert found == sorted(wanted, key=lambda one: one[:2])


class TestBadBytes:
    @pytest.mark.parametrize("data", [b"", b"x", b"kclbundl", b"PK\x03\x04" * 40, bytes(1000)])
    def test_no_bundle(self, data):
        with pytest.raises(DamagedEntry, match="no bundle"):
            list(read(data))

    def test_every_cut_and_flip(self):
        """A bundle that ends early is refused, and one with a flipped byte before anything is decompressed."""
        whole = write([record(1), record(2)])
        for place in range(len(whole)):
            with pytest.raises(DamagedEntry):
                list(read(whole[:place]))
            flipped = bytearray(whole)
            flipped[place] ^= 0x41
            with pytest.raises(CacheFault):
                next(read(bytes(flipped)))

    def test_more(self):
        """Bytes behind the end are refused, also behind the last record inside the stream."""
        text, other = plain([record(1)]), plain([record(1), record(2)])
        for data in (
            write([record(1)]) + b"x",
            right((b"kclbundl", 1, 1, len(text)), lzma.compress(text) * 2),
            right((b"kclbundl", 1, 1, len(text)), lzma.compress(other)),
            right((b"kclbundl", 1, 1, len(other)), lzma.compress(other)),
        ):
            with pytest.raises(DamagedEntry):
                list(read(data))

    def test_later_format(self):
        """A bundle of a later format says so, whatever follows; it is not called damaged."""
        with pytest.raises(CacheFault, match=r"format 2.*install a later kcl") as caught:
            list(read(HEAD.pack(b"kclbundl", 2, 7, 7) + bytes(64)))
        assert not isinstance(caught.value, DamagedEntry)

    @pytest.mark.parametrize(
        "head",
        [(b"kclbundl", 1, 1, 100 << 30), (b"kclbundl", 1, 1 << 17, 100), (b"kclbundl", 0, 0, 0)],
        ids=["length", "count", "format"],
    )
    def test_promises(self, head):
        """A bundle that promises too much is refused before it is decompressed, though its digest fits."""
        with pytest.raises(DamagedEntry, match="claims"):
            list(read(right(head, b"")))

    @pytest.mark.parametrize(
        "sizes",
        [(9, 64, 1 << 31), (9, 64, 60 << 20), (255, 65535, 1)],
        ids=["entry", "rest", "name"],
    )
    def test_lengths(self, sizes):
        """A length inside is checked against what is left, and against the limit of an entry."""
        text = struct.pack("<BHI", *sizes) + plain([record(1)])[7:]
        with pytest.raises(DamagedEntry, match="claims"):
            list(read(right((b"kclbundl", 1, 1, len(text)), lzma.compress(text))))

    def test_bomb(self):
        """A stream that unpacks to more than its bundle says is not unpacked beyond that."""
        text = plain([record(1)])
        bomb = lzma.compress(text + bytes(64 << 20))
        with pytest.raises(DamagedEntry, match="goes on"):
            list(read(right((b"kclbundl", 1, 1, len(text)), bomb)))

    def test_records_before_the_damage(self):
        """What stands before damage is read."""
        text = plain([record(1)]) + b"\x09\x40\x00"
        records = read(right((b"kclbundl", 1, 2, len(text)), lzma.compress(text)))
        assert next(records) == record(1)
        with pytest.raises(DamagedEntry):
            next(records)

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 9999), st.binary(max_size=8)), max_size=4),
        st.integers(-1, 1),
    )
    def test_any_stream(self, changes, more):
        """Whatever stands under a right digest is refused, or read as the entries that were saved."""
        good = [entry(number) for number in range(3)]
        text = plain([record(number) for number in range(3)])
        for number, piece in changes:
            place = number % len(text)
            text = text[:place] + piece + text[place + len(piece) :]
        bundle = right((b"kclbundl", 1, 3 + more, len(text)), lzma.compress(text))
        with contextlib.suppress(CacheFault):  # a damaged entry is one, too
            for _kind, _address, blob in read(bundle):
                assert Entry.unpack(blob) in good


class TestLimits:
    def test_limits(self, monkeypatch):
        """More records than the limit are not written. A Python without lzma gets one sentence that tells what to do."""
        with pytest.raises(CacheFault, match="above the limits"):
            write([("a", "b", b"")] * (grammar.COUNT_LIMIT + 1))
        monkeypatch.setitem(sys.modules, "lzma", None)
        for use in (lambda: write([]), lambda: list(read(FIXTURE.read_bytes()))):
            with pytest.raises(CacheFault, match=r"no module lzma.*install"):
                use()
