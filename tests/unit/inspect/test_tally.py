"""kcl.inspect.tally: what lies in the folders of a store."""

import os

from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores.directory import Directory
from kcl.cache.stores.sqlite import Database, Rows
from kcl.inspect import tally


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


class TestOf:
    def test_small(self, tmp_path):
        """Everything is looked at; what is being written is no entry."""
        store(tmp_path / "store", ["a", "b"], 3)
        (tmp_path / "store" / "a" / ".kcl-tmp-1").write_bytes(b"1")
        assert tally.of("binary", Directory(tmp_path / "store"))[:3] == (6, 30, 1e9)
        assert tally.of("binary", Directory(tmp_path / "none")) == (0, 0, 0.0, 0.0, "")

    def test_without_folders(self, tmp_path):
        """Entries that lie in no folder are counted too."""
        store = Directory(tmp_path / "store")
        store.put("0" * 64, b"12345")
        assert tally.of("binary", store)[:2] == (1, 5)


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

    def test_damaged(self, tmp_path):
        """A file that is no database says so."""
        many = self.rows(tmp_path, 3)
        with open(many.location, "r+b") as stream:
            stream.write(b"garbage" * 100)
        assert "not a database" in tally.of("generator", Database(many.location)).fault

    def test_directory(self, tmp_path):
        """Of a directory the headers are read."""
        directory = Directory(tmp_path / "rows")
        for name, parts in (("base", {}), ("code", {"function": "f"})):
            entry = Entry(Key([Part(name, "1")]), parts, {})
            directory.put(entry.key.digest, entry.pack())
        assert tally.of("generator", directory).entries == 1
