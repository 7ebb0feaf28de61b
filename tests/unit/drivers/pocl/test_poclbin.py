"""kcl.drivers.pocl.poclbin: reading PoCL's container, and cutting it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl.drivers.pocl import poclbin

PLACE = "AB/CDEFGHIJKLMNOPABCDEFGHIJKLMNOPABCDEFG"


def text(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def kernel(name: bytes, files: list[tuple[bytes, bytes]], locals_: int = 1) -> bytes:
    """Write a kernel with two arguments, as PoCL does."""
    arguments = b"".join(
        struct.pack("<IIQII", 1, 2, 0, 3, 8) + text(b"a") + text(b"float*") for _ in range(2)
    )
    body = text(name) + struct.pack("<II3Q", 2, locals_, 32, 1, 1) + b"\7" * 8 * locals_
    body += text(b"attributes") + struct.pack("<Q", 1) + arguments
    content = b"".join(text(path) + text(data) for path, data in files)
    return (
        struct.pack("<QQI", 20 + len(body) + len(content), len(content), len(arguments))
        + body
        + content
    )


def container(kernels: list[bytes], version: int = 8, place: str = PLACE) -> bytes:
    header = struct.pack("<8sQIIQ41s", b"poclbin\0", 77, version, len(kernels), 8, place.encode())
    return header + text(b"/program.bc") + text(b"BC\xc0\xde") + b"".join(kernels)


FILES = [(b"/f/64-1-1/f.so", b"specialised"), (b"/f/0-0-0/f.so", b"stub")]
SMALL = container([kernel(b"f", FILES), kernel(b"g", [], 0)])


class TestRead:
    def test_structure(self) -> None:
        """Everything that PoCL wrote is found, and written again it is the same bytes."""
        found = poclbin.read(SMALL)
        assert found.program == PLACE
        assert [len(each.files) for each in found.kernels] == [2, 0]
        assert found.files()["/f/64-1-1/f.so"] == b"specialised"
        assert found.pack() == SMALL

    def test_without(self) -> None:
        """A file that is cut out leaves every length right."""
        found = poclbin.read(SMALL).without(["/f/0-0-0/f.so"])
        assert found.pack() == container([kernel(b"f", FILES[:1]), kernel(b"g", [], 0)])

    def test_without_a_stranger(self) -> None:
        """Cutting out what is not there is refused: the binary is not what we think."""
        with pytest.raises(ValueError, match="not in the binary"):
            poclbin.read(SMALL).without(["/g/0-0-0/g.so"])

    def test_truncated(self) -> None:
        """Every truncation is refused."""
        for size in range(len(SMALL)):
            with pytest.raises(ValueError):
                poclbin.read(SMALL[:size])

    def test_every_bit(self) -> None:
        """A flipped bit is refused, or changes contents and leaves the structure; there is no other outcome."""
        for bit in range(8 * len(SMALL)):
            flipped = bytearray(SMALL)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                found = poclbin.read(bytes(flipped))
            except ValueError:
                continue
            assert found.pack() == flipped
            assert len(found.kernels) == 2
            assert len(found.files()) == 3

    @given(st.binary(max_size=200))
    @settings(deadline=None)
    def test_noise(self, noise: bytes) -> None:
        """Noise behind a right header is refused."""
        with pytest.raises(ValueError):
            poclbin.read(SMALL[:73] + noise + b"\xff" * 8)

    @pytest.mark.parametrize(
        "blob",
        [
            container([kernel(b"f", FILES)], version=7),
            container([kernel(b"f", FILES)], version=9),
            container([kernel(b"f", FILES)], place="AB/" + "Z" * 37),
            container([kernel(b"f", FILES)], place="../" + "A" * 37),
            container([kernel(b"f", FILES), kernel(b"f", FILES)]),
            container([kernel(b"f", [(b"/g/64-1-1/g.so", b"x")])]),
            container([kernel(b"f", [(b"/f/../f.so", b"x")])]),
            container([kernel(b"f", [(b"/f/64-1-1/f.so", b"")])]),
            container([kernel(b"f", [(b"/f/64-1-1/deep/f.so", b"x")])]),
            container([kernel(b"\xff", [])]),
            SMALL + b"\0",
        ],
        ids=[
            "old",
            "new",
            "letters",
            "climbing",
            "twice",
            "foreign",
            "dots",
            "empty",
            "deep",
            "name",
            "longer",
        ],
    )
    def test_strange(self, blob: bytes) -> None:
        """What PoCL 3 would not have written is refused, even where every length is right."""
        with pytest.raises(ValueError):
            poclbin.read(blob)
