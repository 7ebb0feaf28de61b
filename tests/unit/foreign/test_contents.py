"""kcl.foreign.contents: the files of foreign caches, and what lies in them."""

import contextlib
import os
import sqlite3
import sys

import pytest

from kcl import foreign
from kcl.foreign import contents
from kcl.foreign.table import ROWS


def filled(name, *paths):
    """Make files below the directory of a cache; a path that ends in a slash is an empty directory."""
    for path in paths:
        place = os.path.join(foreign.place(name).path, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not path.endswith("/"):
            with open(place, "wb") as stream:
                stream.write(b"12345")


def names(name):
    """Return the names of a cache's files and directories."""
    return [os.path.basename(path) for path in contents.files(name)]


class TestFiles:
    def test_shared_directory(self):
        """In a directory of several owners each has its own files, and those of nobody known are nobody's."""
        owned = ["pdict-v5-loopy-a.sqlite", "pdict-v5-loopy-a.sqlite-journal"]
        filled("loopy", *owned, "pdict-v5-pyopencl-b.sqlite")
        filled("loopy", "pdict-v5-kcl-generated-v1.sqlite", "pdict-v5-pytato-c.sqlite", "other")
        assert names("loopy") == owned
        assert names("pyopencl") == ["pdict-v5-pyopencl-b.sqlite"]

    def test_of_others(self):
        """A link, and a directory with something else inside, are not the cache's, whatever their names are."""
        filled("pocl", f"AB/{'C' * 37}/program.bc", "DE/thesis.tex", "notes.txt")
        os.symlink("AB", os.path.join(foreign.place("pocl").path, "CD"))
        assert names("pocl") == ["AB"]


@pytest.mark.parametrize(
    ("place", "wide"), [("/", True), ("{0}/home", True), ("{0}", True), ("{0}/home/a", False)]
)
def test_too_wide(monkeypatch, tmp_path, place, wide):
    """The root, the home directory, and what that lies in are no cache, whatever they hold."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert contents.is_too_wide(place.format(tmp_path)) is wide


class TestMeasure:
    def test_files(self):
        """Entries are the files that stand for one; bytes and times are those of all files."""
        filled("pocl", *(f"AB/{letter * 37}/program.bc" for letter in "CDE"))
        filled("pocl", f"AB/{'C' * 37}/k/0-0-0/k.so", "tempfile_x.cl", "unknown")
        oldest = os.path.join(foreign.place("pocl").path, "AB", "D" * 37, "program.bc")
        os.utime(oldest, (1e9, 1e9))
        measured = contents.measure("pocl")
        assert measured[:3] == (3, 25, 1e9)
        assert measured.newest > 1e9

    def test_rows(self):
        """The entries of a dictionary are its rows; a file that is no database is said, and the others still count."""
        filled("loopy", "pdict-v5-loopy-a.sqlite", "pdict-v5-loopy-b.sqlite")
        good = os.path.join(foreign.place("loopy").path, "pdict-v5-loopy-b.sqlite")
        os.unlink(good)
        with contextlib.closing(sqlite3.connect(good)) as database, database:
            database.execute("CREATE TABLE dict (keyhash TEXT, key_value TEXT)")
            database.executemany("INSERT INTO dict VALUES (?, '')", [("a",), ("b",)])
        measured = contents.measure("loopy")
        assert measured.entries == 2
        assert "pdict-v5-loopy-a.sqlite: file is not a database" in measured.fault

    def test_nothing(self):
        """A cache that is not there, or has no directory, holds nothing, and measuring makes no file."""
        assert all(contents.measure(name)[:2] == (0, 0) for name in ROWS)
        assert not os.path.exists(foreign.place("comgr").path)


@pytest.fixture
def a_bare_machine(monkeypatch, tmp_path):
    """A Linux machine without packages, whose drivers are those of a folder."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(contents, "version", lambda _name: "")
    monkeypatch.setattr(contents, "FOLDERS", ())
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)


@pytest.mark.usefixtures("a_bare_machine")
class TestIsHere:
    def test_driver(self, tmp_path, monkeypatch):
        """A driver is here where an ICD file, in a folder or in its place, or a list of libraries names its library."""
        assert not contents.is_here("neo")
        assert not contents.is_platform_here("NVIDIA CUDA")
        (tmp_path / "intel.icd").write_text("/usr/lib/intel-opencl/libigdrcl.so\n")
        (tmp_path / "amd.icd").write_text("libamdocl64.so\n")
        assert [contents.is_here(name) for name in ("neo", "comgr", "cuda")] == [True, True, False]
        (tmp_path / "nvidia.icd").write_text("libnvidia-opencl.so.1")
        assert contents.is_platform_here("NVIDIA CUDA")
        monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "intel.icd"))
        monkeypatch.setenv("OCL_ICD_FILENAMES", "/opt/libpocl.so.2:/opt/libnvidia-opencl.so.1")
        assert all(map(contents.is_here, ("neo", "pocl", "cuda")))

    @pytest.mark.parametrize("name", ["", "Some vendor's platform"])
    def test_the_driver_of_a_platform_that_no_row_names_may_be_here(self, name):
        assert contents.is_platform_here(name)

    def test_package(self, monkeypatch):
        """A package that can be imported is here, and where nothing can be known the owner may be."""
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [])
            patch.delitem(sys.modules, "loopy", raising=False)
            assert not contents.is_here("loopy")
        assert contents.is_here("loopy")
        assert not contents.is_here("intel")
        monkeypatch.setattr(contents, "version", lambda name: "1" if name == "intel" else "")
        assert contents.is_here("intel")
        monkeypatch.setattr(sys, "platform", "darwin")
        assert contents.is_here("cuda")
