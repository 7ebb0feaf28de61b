"""kcl.drivers.pocl.files: the helper's own PoCL cache, what it reads of the user's, and damage, found by its form."""

import ctypes
import os
import pathlib
import random
import shutil
import struct

import pytest
from harness import platforms
from many_programs import SPOILS

from kcl.drivers.pocl.files import (
    ACCESSED,
    BITCODE,
    WorkCache,
    bitcode_fault,
    damaged,
    library_fault,
    stub,
)

PLACE = "AB/" + "C" * 37
# The blocks that PoCL's bitcode has, each empty.
SOUND = b"BC\xc0\xde" + struct.pack("<4I", 1 | 8 << 2, 0, 1 | 23 << 2, 0)


@pytest.fixture
def private(tmp_path):
    """A private cache."""
    (tmp_path / "private").mkdir()
    return WorkCache(str(tmp_path / "private"))


def program(root, place=PLACE, content=SOUND):
    """Write a program as PoCL leaves it."""
    folder = root / place
    folder.mkdir(parents=True)
    (folder / BITCODE).write_bytes(content)
    (folder / ACCESSED).write_bytes(b"")
    return folder


def test_seeded(private, tmp_path):
    """Bitcode of the user's programs is copied, and nothing else; a seeded program was not built."""
    program(tmp_path / "user")
    private.seed(str(tmp_path / "user"), since=0.0)
    assert private.files(PLACE) == {f"/{BITCODE}": SOUND}
    with pytest.raises(ValueError, match="0 programs"):
        private.used()


@pytest.mark.parametrize("is_link", [False, True])
def test_not_seeded(private, tmp_path, is_link):
    """What was compiled before is not copied, and no link in the user's cache is read."""
    folder = program(tmp_path / "user")
    if is_link:
        (folder / BITCODE).rename(tmp_path / "secret")
        (folder / BITCODE).symlink_to(tmp_path / "secret")
        private.seed_one(str(tmp_path / "user"), PLACE)
    else:
        for path in (*folder.iterdir(), folder):
            os.utime(path, (1e9, 1e9))
        private.seed(str(tmp_path / "user"), since=2e9)
    assert private.files(PLACE) == {}


def test_used(private):
    """The one program that was built is named; none, after it is forgotten, and two are an error."""
    root = pathlib.Path(private.path)
    program(root)
    assert private.used() == PLACE
    private.forget(PLACE)
    with pytest.raises(ValueError, match="0 programs"):
        private.used()
    for place in (PLACE, "CD/" + "E" * 37):
        program(root, place)
    with pytest.raises(ValueError, match="2 programs"):
        private.used()
    private.clear()
    assert private.files(PLACE) == {}


def test_stubs(private):
    """A stub stands where PoCL looks for a generic function, unless one is there."""
    private.plant(PLACE, {"/f/0-0-0/f.so": b"real"})
    assert private.plant_stubs(PLACE, ["f", "g"]) == ["/g/0-0-0/g.so"]
    assert private.files(PLACE)["/f/0-0-0/f.so"] == b"real"
    assert private.files(PLACE)["/g/0-0-0/g.so"].startswith(b"\x7fELF")


@pytest.fixture
def cache(full, tmp_path):
    """A copy of a cache that PoCL has filled."""
    if "pocl" not in platforms():
        pytest.skip("this is PoCL's cache")
    return shutil.copytree(full.cache / "pocl" / "kcache", tmp_path / "kcache")


def files(cache):
    """Return the files of PoCL's that count."""
    return sorted(path for path in cache.rglob("*") if path.suffix in (".so", ".bc"))


def names(cache):
    """Return the paths of what is found."""
    return {path for path, _damage in damaged(map(str, cache.iterdir()))}


class TestDamaged:
    def test_whole(self, cache):
        """What PoCL wrote is whole; a file that is not PoCL's code is no damage."""
        assert len(files(cache)) >= 24
        (files(cache)[0].parent / "notes.txt").write_bytes(b"")
        assert names(cache) == set()

    def test_kinds(self, cache):
        """Empty, random, zeroed and cut files are found, and what is no file at all."""
        dice = random.Random(1)
        for number, path in enumerate(files(cache)):
            SPOILS[number // 2 % len(SPOILS)](dice, path, path.read_bytes())
        assert names(cache) == set(map(str, files(cache)))

    def test_however_much_is_missing_it_is_seen(self, cache):
        for fault, end in ((bitcode_fault, ".bc"), (library_fault, ".so")):
            content = next(path.read_bytes() for path in files(cache) if path.suffix == end)
            assert not fault(content)
            assert all(fault(content[:length]) for length in range(len(content)))


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 254])
def test_stub(tmp_path, length):
    """The dynamic linker finds the one symbol, of at most 254 letters; those of kernels with a stub are shorter."""
    path = tmp_path / "k.so"
    path.write_bytes(stub("k" * length))
    loaded = ctypes.CDLL(str(path))
    assert hasattr(loaded, "k" * length)
    assert not hasattr(loaded, "j" * length)
