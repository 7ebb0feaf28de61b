"""kcl.inspect.inventory.tally: what lies in the folders of a large store, without looking at each file again."""

from __future__ import annotations

import os

from kcl import option
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores.database import Database
from kcl.cache.stores.directory import Directory
from kcl.cache.stores.persistentdict import Rows
from kcl.inspect.inventory import tally


def store(root, folders, number):
    """Make a store of folders with so many entries of five bytes each, all an hour old."""
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
        for each in range(number):
            (root / folder / f"kernel-{each:064x}").write_bytes(b"12345")
        age(root / folder)
    os.utime(root, (1e9, 1e9))


def age(folder):
    """Let a folder and its files be an hour old, by then nothing more happens in it."""
    for path in [*folder.iterdir(), folder]:
        os.utime(path, (1e9, 1e9))


def kept():
    """Return whether a summary was written."""
    return os.path.isdir(os.path.join(option.folder("kcl"), "listing"))


class TestOf:
    def test_small(self, tmp_path):
        """Of a small store everything is looked at, and nothing is written; what is being written is no entry."""
        store(tmp_path / "store", ["a", "b"], 3)
        (tmp_path / "store" / "a" / ".kcl-tmp-1").write_bytes(b"1")
        assert tally.of("binary", Directory(tmp_path / "store"))[:3] == (6, 30, 1e9)
        assert not kept()
        assert tally.of("binary", Directory(tmp_path / "none")) == (0, 0, 0.0, 0.0, "")

    def test_without_folders(self, tmp_path):
        """Entries that lie in no folder are counted too."""
        store = Directory(tmp_path / "store")
        store.put("0" * 64, b"12345")
        assert tally.of("binary", store)[:2] == (1, 5)

    def test_large(self, tmp_path):
        """A store that did not change counts as it was counted; one that did is looked at again."""
        root = tmp_path / "store"
        store(root, ["a", "b"], tally.FEW)
        assert tally.of("binary", Directory(root))[:2] == (2 * tally.FEW, 10 * tally.FEW)
        assert kept()
        # in the place of an entry, without a trace in the folder: what nobody does
        next((root / "a").iterdir()).write_bytes(b"longer than 5")
        assert tally.of("binary", Directory(root)).bytes == 10 * tally.FEW
        (root / "b" / ("one-" + "0" * 64)).write_bytes(b"1")
        assert tally.of("binary", Directory(root))[:2] == (2 * tally.FEW + 1, 10 * tally.FEW + 8 + 1)

    def test_just_changed(self, tmp_path):
        """What a folder holds that changed a moment ago is not kept: it may change again at the same time."""
        root = tmp_path / "store"
        store(root, ["a"], tally.FEW + 1)
        os.utime(root / "a")
        tally.of("binary", Directory(root))
        next((root / "a").iterdir()).write_bytes(b"longer than five")
        assert tally.of("binary", Directory(root)).bytes > 5 * (tally.FEW + 1)

    def test_damaged(self, tmp_path):
        """A summary that is none is made anew."""
        root = tmp_path / "store"
        store(root, ["a"], tally.FEW + 1)
        tally.of("binary", Directory(root))
        (path,) = [item.path for item in os.scandir(os.path.join(option.folder("kcl"), "listing"))]
        for text in (b"[]", b"{", b'{"x": 1}', b'{"x": [1, 2, "3", 4, 5, 6]}', b""):
            with open(path, "wb") as stream:
                stream.write(text)
            assert tally.of("binary", Directory(root)).entries == tally.FEW + 1


class TestOfCode:
    def rows(self, tmp_path, count):
        """Put so many bases, and as many rows with code, into a database an hour old."""
        rows = Rows(tmp_path)
        for number in range(count):
            base = Entry(Key([Part("base", str(number))]), {}, {"record.json": b'{"source.cl": "function"}'})
            code = Entry(Key([Part("code", str(number))]), {"function": "f"}, {"source.cl": b"//"})
            for entry in (base, code):
                rows.put(entry.key.digest, entry.pack())
        os.utime(rows.location, (1e9, 1e9))
        return Database(rows.location)

    def test_database(self, tmp_path):
        """Of a database the rows with code are counted, and all bytes."""
        store = self.rows(tmp_path, 3)
        assert tally.of("generator", store) == (3, os.path.getsize(store.location), 1e9, 1e9, "")
        assert not kept()

    def test_kept(self, tmp_path):
        """The count of a large one is kept, beside those of other stores, until the file changes."""
        many, other = self.rows(tmp_path / "rows", tally.FEW + 1), tmp_path / "store"
        store(other, ["a"], tally.FEW + 1)
        for _ in range(2):
            assert tally.of("generator", many).entries == tally.of("binary", Directory(other)).entries == tally.FEW + 1
        with open(many.location, "r+b") as stream:
            stream.write(b"garbage" * 100)
        os.utime(many.location, (1e9, 1e9))
        assert tally.of("generator", Database(many.location)).entries == tally.FEW + 1  # nobody looked
        os.utime(many.location, (2e9 - 1, 1e9 + 1))
        assert "not a database" in tally.of("generator", Database(many.location)).fault

    def test_directory(self, tmp_path):
        """Of a directory the headers are read."""
        directory = Directory(tmp_path / "rows")
        for name, parts in (("base", {}), ("code", {"function": "f"})):
            entry = Entry(Key([Part(name, "1")]), parts, {})
            directory.put(entry.key.digest, entry.pack())
        assert tally.of("generator", directory).entries == 1
