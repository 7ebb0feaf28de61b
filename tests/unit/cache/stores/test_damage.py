"""kcl.cache.stores.damage: which errors of SQLite show damage; test_sqlite.py damages files."""

import os
import sqlite3

import pytest

from kcl.cache.stores import damage


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (sqlite3.DatabaseError("file is not a database"), True),
        (sqlite3.IntegrityError("NOT NULL constraint failed"), True),
        (sqlite3.ProgrammingError("Cannot operate on a closed database."), False),
        (sqlite3.OperationalError("malformed database schema (dict)"), True),
        (sqlite3.OperationalError("table dict has 3 columns but 2 values were supplied"), True),
        (sqlite3.OperationalError("disk I/O error"), False),
        (sqlite3.OperationalError("attempt to write a readonly database"), True),
    ],
)
def test_is_shown(tmp_path, error, shown):
    """Errors of a file that this user may write show its damage; those of the disk, or of the call, do not."""
    path = tmp_path / "rows"
    path.write_bytes(b"")
    assert damage.is_shown(error, str(path)) is shown


def test_put_aside(tmp_path):
    """The file that was open is renamed, with what SQLite keeps beside it gone; a new one in its place stays."""
    path = tmp_path / "rows"
    for name in ("rows", "rows-journal"):
        (tmp_path / name).write_bytes(b"old")
    status = os.lstat(path)
    file = status.st_dev, status.st_ino
    damage.put_aside(str(path), (status.st_dev, status.st_ino + 1))
    assert path.read_bytes() == b"old"
    damage.put_aside(str(path), file)
    assert [item.name for item in tmp_path.iterdir()] == ["rows.damaged-1"]
    damage.put_aside(str(path), file)
