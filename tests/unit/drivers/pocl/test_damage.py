"""kcl.drivers.pocl.damage: files of PoCL's that are empty, cut short or something else are found by their form."""

from __future__ import annotations

import os
import random
import shutil

import pytest
from harness import platforms

from kcl.drivers.pocl import damage, repair


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
    return {found.path for found in damage.damaged(map(str, cache.iterdir()))}


class TestDamaged:
    def test_whole(self, cache):
        """What PoCL wrote is whole."""
        assert len(files(cache)) >= 24
        assert names(cache) == set()

    def test_kinds(self, cache):
        """Empty, random, zeroed and cut files are found, and what is no file at all."""
        dice = random.Random(1)
        spoils = [
            lambda path, _content: path.write_bytes(b""),
            lambda path, content: path.write_bytes(dice.randbytes(len(content))),
            lambda path, content: path.write_bytes(bytes(len(content))),
            lambda path, content: path.write_bytes(content[: len(content) // 2]),
            lambda path, content: path.write_bytes(content[:-4]),
            lambda path, _content: (path.unlink(), path.mkdir()),
            lambda path, _content: (path.unlink(), os.mkfifo(path)),
            lambda path, _content: (path.unlink(), path.symlink_to("/dev/zero")),
        ]
        for number, path in enumerate(files(cache)):
            spoils[number // 2 % len(spoils)](path, path.read_bytes())
        assert names(cache) == set(map(str, files(cache)))

    def test_every_cut(self, cache):
        """However much is missing, it is seen."""
        for fault, end in ((damage.bitcode_fault, ".bc"), (damage.library_fault, ".so")):
            content = next(path.read_bytes() for path in files(cache) if path.suffix == end)
            assert not fault(content)
            assert all(fault(content[:length]) for length in range(len(content)))

    def test_others(self, cache):
        """A file that is not PoCL's code is no damage."""
        (files(cache)[0].parent / "notes.txt").write_bytes(b"")
        assert names(cache) == set()


class TestDiffering:
    def test_flipped(self, full, cache, monkeypatch):
        """A file of whole form that holds other bytes than the entry is found by comparing.

        The bitcode that PoCL wrote itself names its directory, and that of the entry does not.
        """
        from kcl.cache.entry import Entry

        monkeypatch.setenv("POCL_CACHE_DIR", str(cache))
        found = [path for path in (full.cache / "pyopencl" / "kcl-binary-v1").rglob("*") if path.is_file()]
        entries = [Entry.unpack(path.read_bytes()) for path in found]
        before = [place for entry in entries for place in repair.differing(entry)]
        assert {os.path.basename(place) for place in before} <= {"program.bc"}
        path = next(path for path in files(cache) if path.suffix == ".so")
        content = bytearray(path.read_bytes())
        content[4000] ^= 1
        path.write_bytes(content)
        assert names(cache) == set()
        after = [place for entry in entries for place in repair.differing(entry)]
        assert sorted(set(after) - set(before)) == [str(path)]
