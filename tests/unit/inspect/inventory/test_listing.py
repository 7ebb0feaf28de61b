"""kcl.inspect.inventory.listing: what was seen of a store's files is kept for the next look."""

from __future__ import annotations

import os
import shutil

import pytest

from kcl import option
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.cache.stores.persistentdict import Rows
from kcl.inspect import inventory
from kcl.inspect.inventory import Fault, listing


def entry(kernel: str, number: int = 0, **metadata) -> Entry:
    """Return an entry of a program."""
    about = {"kernel": kernel, "created": 1000 + number, "seconds": 0.5, "kernels": [kernel], "options": ["-DN=1"]}
    device = {"platform": {"name": "a platform"}, "device": {"name": "a device"}}
    return Entry(Key([Part("source", f"{kernel} {number}")]), {**about, **device, **metadata}, {"binary": b"1234"})


def code(kernel: str, number: int = 0) -> list[Entry]:
    """Return the rows of generated code: base, pointer, code."""
    direct = [Part("code", f"{kernel} {number}"), Part("parameter n", "1")]
    key = Key([*direct, Part("argument x", "<f4")])
    about = {"kernel": kernel, "created": 1000 + number, "seconds": 2.0}
    return [
        Entry(Key(direct), about, {"reached.json": b"{}"}),
        Entry(Key([Part("unit", f"{kernel} {number}")]), {**about, "row": [list(part) for part in key.parts]}, {}),
        Entry(key, {**about, "function": "invoke", "base": {"open": ["x"]}}, {"source.cl": b"// code"}),
    ]


@pytest.fixture
def stores(tmp_path):
    """Return the stores of both layers: programs, rows."""
    option.cache_dir(tmp_path / "root")
    binaries = Directory(os.path.join(option.folder("pyopencl"), "kcl-binary-v1"))
    return binaries, Rows(option.folder("pytools"))


def fill(stores, *kernels, count=1):
    """Put a program and the rows of code for each kernel into the stores."""
    binaries, rows = stores
    for kernel in kernels:
        for number in range(count):
            made = entry(kernel, number)
            binaries.put(address(made.key.digest, "a device", kernel), made.pack())
            for row in code(kernel, number):
                rows.put(row.key.digest, row.pack())


def path_of(summary) -> str:
    """Return the file of a program."""
    return os.path.join(option.folder("pyopencl"), "kcl-binary-v1", summary.address)


class TestListing:
    @pytest.fixture
    def many(self, stores, monkeypatch):
        """A cache that counts as large, and has not changed for a while."""
        monkeypatch.setattr(listing, "FEW", 3)
        fill(stores, "axpy", count=5)
        settle(stores)
        return stores

    @pytest.mark.usefixtures("many")
    def test_same(self):
        """The second listing of a large cache says the same, and opens no entry: shown by making them unreadable."""
        first = list(inventory.summaries())
        assert len(first) == 10
        for found in first[5:]:
            status = os.stat(path_of(found))
            with open(path_of(found), "r+b") as stream:
                stream.write(b"XXXXXXXX")
            os.utime(path_of(found), ns=(status.st_atime_ns, status.st_mtime_ns))
        faults: list[Fault] = []
        assert list(inventory.summaries(faults=faults)) == first
        assert not faults

    def test_changes(self, many):
        """What is added, replaced and removed is noticed."""
        list(inventory.summaries())
        added = entry("sum")
        many[0].put(address(added.key.digest, "a device", "sum"), added.pack())
        replaced = entry("axpy", 1, seconds=7.0)
        many[0].put(address(replaced.key.digest, "a device", "axpy"), replaced.pack())
        many[0].delete(address(entry("axpy", 2).key.digest, "a device", "axpy"))
        many[1].delete(code("axpy", 3)[-1].key.digest)
        found = list(inventory.summaries())
        assert len(found) == 9
        assert {one.seconds for one in found if one.layer == "binary"} == {0.5, 7.0}
        assert [one.kernel for one in found if one.kernel != "axpy"] == ["sum"]

    def test_small(self, stores):
        """A small cache is read anew each time, and no file is written."""
        fill(stores, "axpy", count=2)
        settle(stores)
        assert len(list(inventory.summaries())) == 4
        assert not os.path.exists(option.folder("kcl"))

    @pytest.mark.usefixtures("many")
    @pytest.mark.parametrize("content", [b"", b"garbage" * 100, b"0" * 64 + b"\n{}"])
    def test_damaged(self, content):
        """A damaged summary is made anew."""
        first = list(inventory.summaries())
        folder = os.path.join(option.folder("kcl"), "listing")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "wb") as stream:
                stream.write(content)
        assert list(inventory.summaries()) == first

    @pytest.mark.usefixtures("many")
    def test_moved(self, tmp_path):
        """A copy of the cache elsewhere is read for itself."""
        first = list(inventory.summaries())
        shutil.copytree(tmp_path / "root", tmp_path / "copy")
        option.cache_dir(tmp_path / "copy")
        os.remove(path_of(first[-1]))
        assert len(list(inventory.summaries())) == 9


def settle(stores) -> None:
    """Make everything an hour old."""
    root = stores[0].location
    for path in (stores[1].location, root, *(os.path.join(root, name) for name in os.listdir(root))):
        status = os.stat(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 3600 * 10**9))
