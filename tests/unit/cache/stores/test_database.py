"""kcl.cache.stores.database: rows read without pytools."""

from __future__ import annotations

import os
import sqlite3

import pytest

from kcl.cache.stores.contract import example
from kcl.cache.stores.database import Database
from kcl.cache.stores.persistentdict import Rows
from kcl.errors import DamagedEntry, UnusableDirectory


@pytest.fixture
def rows(tmp_path):
    """Two rows, as the generator layer writes them."""
    made = Rows(tmp_path / "pytools")
    made.put(example(1), b"a longer blob")
    made.put(example(2), b"")
    return made


class TestDatabase:
    def test_same(self, rows):
        """It reads what was put."""
        database = Database(rows.location)
        assert list(database.scan()) == list(rows.scan()) == [example(1), example(2)]
        for place in (example(1), example(2), example(3)):
            assert database.get(place) == rows.get(place)
            assert database.stat(place) == rows.stat(place)
        assert database.head(example(1), 8) == ((13, None), b"a longer")
        assert database.head(example(3), 8) is None

    def test_what_is_no_row_of_kcl(self, rows):
        """A row without bytes is damage; one that is no entry's is not listed."""
        with sqlite3.connect(rows.location) as connection:
            connection.execute("INSERT INTO dict VALUES (?, ?)", (example(3), "text"))
            connection.execute("INSERT INTO dict VALUES (?, ?)", ("other", b"1"))
        connection.close()
        database = Database(rows.location)
        assert list(database.scan()) == [example(1), example(2), example(3)]
        with pytest.raises(DamagedEntry, match="no bytes"):
            database.get(example(3))

    def test_refused(self, rows, tmp_path):
        """A file that is not there, or that others can write, is refused; none is made."""
        with pytest.raises(OSError, match="none"):
            Database(tmp_path / "none").get(example(1))
        assert not (tmp_path / "none").exists()
        os.chmod(rows.location, 0o666)
        with pytest.raises(UnusableDirectory, match="others can write"):
            Database(rows.location).get(example(1))

    def test_count(self, rows):
        """Rows are counted by bytes at their beginning."""
        database = Database(rows.location)
        assert database.count(b"long", 100) == 1
        assert database.count(b"long", 4) == database.count(b"none", 100) == 0
