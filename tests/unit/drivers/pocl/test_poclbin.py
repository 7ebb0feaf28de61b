"""kcl.drivers.pocl.poclbin: reading PoCL's container, and cutting it."""

import pathlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl.drivers.pocl import poclbin

PLACE = "AB/CDEFGHIJKLMNOPABCDEFGHIJKLMNOPABCDEFG"


def text(content):
    return struct.pack("<I", len(content)) + content


def kernel(name, files, locals_=1):
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


def container(kernels, version=8, place=PLACE):
    header = struct.pack(
        "<8sQIIQ", b"poclbin\0", 77, version, len(kernels), 8 if version < 11 else 2
    )
    bitcode = text(b"/program.bc") + text(b"BC\xc0\xde")
    if version == 8:
        return header + place.encode() + b"\0" * (41 - len(place)) + bitcode + b"".join(kernels)
    header += struct.pack("<I41s", 1, place.encode()) + bytes(8 if version >= 11 else 0)
    return header + struct.pack("<Q", len(bitcode)) + bitcode + b"".join(kernels)


FILES = [(b"/f/64-1-1/f.so", b"specialised"), (b"/f/0-0-0/f.so", b"stub")]
SMALL = container([kernel(b"f", FILES), kernel(b"g", [], 0)])
# A kernel of each PoCL, launched once; the content of each file is cut to 48 bytes, and every length fits.
WRITTEN = sorted(pathlib.Path(__file__).with_name("containers").glob("*.bin"))
LONG_NAME = "long_" + "x" * 80


class TestWritten:
    """Containers that real versions of PoCL wrote."""

    @pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
    def test_read(self, path):
        """The files are found by their paths, and written again they are the same bytes."""
        blob = path.read_bytes()
        found = poclbin.read(blob)
        ((_description, files),) = found.kernels
        name = LONG_NAME if "long" in path.stem else "k0"
        assert found.pack() == blob
        assert list(found.own) == [poclbin.BITCODE]
        assert found.own[poclbin.BITCODE][:4] == b"BC\xc0\xde"
        assert all(content[:4] == b"\x7fELF" for content in files.values())
        folders = {path.split("/")[1] for path in files}
        assert all(poclbin.is_folder_of(folder, name) for folder in folders)
        assert not any(poclbin.is_folder_of(folder, name + "x") for folder in folders)

    @pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
    def test_damaged(self, path):
        """Every truncation is refused, and so is a flipped bit that is in no content, no description and no number."""
        blob = path.read_bytes()
        good = poclbin.read(blob)
        for size in range(len(blob)):
            with pytest.raises(ValueError):
                poclbin.read(blob[:size])
        for bit in range(8 * len(blob)):
            flipped = bytearray(blob)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                found = poclbin.read(bytes(flipped))
            except ValueError:
                continue
            assert found.pack() == flipped
            assert len(found.files()) == len(good.files())

    def test_there_is_a_container_of_each_version_that_is_not_untried(self):
        found = {int.from_bytes(path.read_bytes()[16:20], "little") for path in WRITTEN}
        assert found == {*poclbin.VERSIONS} - {12}


class TestRead:
    @pytest.mark.parametrize("version", poclbin.VERSIONS)
    def test_structure(self, version):
        """Everything that PoCL wrote is found, and written again it is the same bytes."""
        small = container([kernel(b"f", FILES), kernel(b"g", [], 0)], version)
        found = poclbin.read(small)
        assert found.program == PLACE
        assert [len(files) for _description, files in found.kernels] == [2, 0]
        assert found.files()["/f/64-1-1/f.so"] == b"specialised"
        assert found.pack() == small

    @pytest.mark.parametrize("version", [7, 10, 13])
    def test_unknown_version(self, version):
        """A container of another version is refused with its number, which `check` finds too; `check` knows PoCL's only."""
        blob = container([kernel(b"f", FILES)], version)
        for judge in (poclbin.read, poclbin.check):
            with pytest.raises(poclbin.UnknownContainer) as refused:
                judge(blob)
            assert refused.value.args == (version,)
        poclbin.check(SMALL)
        poclbin.check(b"\x7fELF")

    def test_without(self):
        """A file that is cut out leaves every length right; cutting out what is not there is refused."""
        found = poclbin.read(SMALL).without(["/f/0-0-0/f.so"])
        assert found.pack() == container([kernel(b"f", FILES[:1]), kernel(b"g", [], 0)])
        with pytest.raises(ValueError, match="not in the binary"):
            poclbin.read(SMALL).without(["/g/0-0-0/g.so"])

    def test_a_name_that_ends_behind_the_description_of_its_kernel(self):
        with pytest.raises(ValueError, match="ends inside the text"):
            poclbin.read(container([struct.pack("<QQII", 28, 0, 0, 5) + b"name"]))

    @given(st.binary(max_size=200))
    def test_noise_behind_a_right_header(self, noise):
        with pytest.raises(ValueError):
            poclbin.read(SMALL[:73] + noise + b"\xff" * 8)

    @pytest.mark.parametrize(
        "blob",
        [
            container([kernel(b"f", FILES)]).replace(struct.pack("<I", 8), struct.pack("<I", 9), 1),
            container([kernel(b"f", FILES)], version=9)[:60],
            container([kernel(b"f", FILES)], place="AB/" + "Z" * 37),
            container([kernel(b"f", FILES)], place="../" + "A" * 37),
            container([kernel(b"f", FILES), kernel(b"f", FILES)]),
            container([kernel(b"f", [(b"/g/64-1-1/g.so", b"x")])]),
            container([kernel(b"f", [(b"/f/../f.so", b"x")])]),
            container([kernel(b"f", [(b"/f/64-1-1/f.so", b"")])]),
            container([kernel(b"f", [(b"/f/64-1-1/deep/f.so", b"x")])]),
            container([kernel(b"\xff", [])]),
            SMALL + b"\0",
            container([])[:-1],
            container([], version=9)[:-1],
        ],
        ids=[
            *("other version", "header alone", "letters", "climbing", "twice", "foreign", "dots"),
            *("empty", "deep", "name", "longer", "cut bitcode", "cut root"),
        ],
    )
    def test_strange(self, blob: bytes) -> None:
        """What PoCL would not have written is refused, even where every length is right."""
        with pytest.raises(ValueError):
            poclbin.read(blob)
