"""The PersistentDict of pytools with kcl's own rows: bytes that are verified, never pickles that are run.

The class, the file and the table are those of pytools. Three actions of pytools are replaced: at construction
(make the directory, open, wait for ever), on a busy database (retry for ever) and with a row (unpickle it).
`kcl.cache.stores.persistentdict` imports this module at the first use of a row, since this module imports pytools.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any, TypeVar

from pytools.persistent_dict import NoSuchEntryError, PersistentDict

from kcl.base.settings import trust
from kcl.cache.stores import busy
from kcl.cache.stores.base import ROW_LIMIT
from kcl.errors import DamagedEntry

T = TypeVar("T")

# for a row that is too long the length, so that the row is not read
_FETCH = (
    f"SELECT CASE WHEN length(key_value) > {ROW_LIMIT} THEN length(key_value) ELSE key_value END "
    "FROM dict WHERE keyhash=?"
)
# the keys in a page of the index, of any type in a damaged one; a value that is no text is above all texts
_AROUND = [
    "SELECT typeof(keyhash) <> 'text', hex(keyhash) FROM dict "
    f"WHERE keyhash {comparison} ? ORDER BY keyhash {order} LIMIT 64"
    for comparison, order in ((">=", "ASC"), ("<=", "DESC"))
]
# one statement, so that it sees one state of the file
_IS_LACKING = (
    "SELECT EXISTS (SELECT 1 FROM dict WHERE rowid = ? AND +keyhash = ?) "
    "AND NOT EXISTS (SELECT 1 FROM dict WHERE keyhash = ?)"
)
_CREATE = "CREATE TABLE IF NOT EXISTS dict (keyhash TEXT NOT NULL PRIMARY KEY, key_value TEXT NOT NULL)"


class GeneratorDict(PersistentDict[str, bytes]):  # type: ignore[misc]
    """Bytes by address in the table of a PersistentDict; the address itself is the row's key.

    Nothing is opened before the first operation, and only `store` makes a file. An operation waits for a busy database
    while others work on it (`kcl.cache.stores.busy`), then raises `sqlite3.OperationalError`. A forked child must make
    its own object: `usable` tells. Safe to use from several threads.
    """

    def __init__(self, identifier: str, container_dir: str, filename: str) -> None:
        # the attributes of the base class, whose constructor would open the file
        self.identifier = identifier
        self.container_dir = container_dir
        self.filename = filename
        self.key_builder = None
        self.mutex = RLock()  # a signal handler may launch in the same thread
        self.conn: busy.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._process = os.getpid()
        self._writable = False

    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:  # at exit the module may be empty
        # after a fork a thread of the parent may hold the mutex, and the connection is the parent's
        if getattr(self, "_process", None) == getpid() and self.conn is not None:
            self.conn.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.filename})"

    def usable(self, status: os.stat_result) -> bool:
        """Tell whether the opened file is still the one of this status, and this process has opened it."""
        return self._file in (None, (status.st_dev, status.st_ino)) and self._process == os.getpid()

    def fetch(self, key: str) -> bytes:
        """Return the bytes under a key; raise `NoSuchEntryError` (a `KeyError`) or `DamagedEntry`."""
        rows = self._read(_FETCH, key)
        if not rows:
            raise NoSuchEntryError(key)
        return self._bytes(rows[0][0])

    def size(self, key: str) -> int:
        """Return the number of bytes under a key; raise `NoSuchEntryError` (a `KeyError`)."""
        rows = self._read("SELECT length(key_value) FROM dict WHERE keyhash=?", key)
        if not rows:
            raise NoSuchEntryError(key)
        return int(rows[0][0])

    def store(self, key: str, value: bytes, _skip_if_present: bool = False) -> None:
        """Keep bytes under a key; make the file, mode 0600, where it is missing."""
        command = f"INSERT OR {'IGNORE' if _skip_if_present else 'REPLACE'} INTO dict VALUES (?, ?)"
        with self.mutex, _in_words():
            self._prepare_writing()
            connection = self._connection()
            done = connection.patiently(lambda: connection.execute(command, (key, sqlite3.Binary(value))))
            _check_index(connection, key, done.lastrowid if done.rowcount == 1 else None)

    def store_if_not_present(self, key: str, value: bytes) -> None:
        self.store(key, value, _skip_if_present=True)

    def remove(self, key: str) -> None:
        """Forget a key; raise `NoSuchEntryError` for a missing key."""
        if not self._change("DELETE FROM dict WHERE keyhash=?", key):
            raise NoSuchEntryError(key)

    def __delitem__(self, key: str) -> None:
        self.remove(key)

    def __len__(self) -> int:
        rows = self._read("SELECT COUNT(*) FROM dict")
        return int(rows[0][0]) if rows else 0

    # iterators as in pytools, not the views that Mapping promises
    def keys(self) -> Iterator[str]:
        for (key,) in self._read("SELECT keyhash FROM dict ORDER BY rowid"):
            if isinstance(key, bytes):
                yield key.decode("utf-8", "replace")

    def values(self) -> Iterator[bytes]:
        for _, value in self.items():
            yield value

    def items(self) -> Iterator[tuple[str, bytes]]:
        for key in self.keys():
            with suppress(NoSuchEntryError):  # removed since the keys were read
                yield key, self.fetch(key)

    def clear(self) -> None:
        self._change("DELETE FROM dict")

    def _read(self, command: str, *values: str) -> list[tuple[Any, ...]]:
        try:
            return self._exec_sql_fn(lambda: self._connection().execute(command, values).fetchall())
        except (FileNotFoundError, sqlite3.OperationalError) as error:
            if _is_absent(error):
                return []
            raise

    def _change(self, command: str, *values: str) -> int:
        try:
            return self._exec_sql_fn(lambda: self._connection().execute(command, values).rowcount)
        except (FileNotFoundError, sqlite3.OperationalError) as error:
            if _is_absent(error):
                return 0
            raise

    def _exec_sql_fn(self, fn: Callable[[], T]) -> T:
        """Call a function that uses the database, again while the database is busy."""
        with self.mutex, _in_words():
            return self._connection().patiently(fn)

    def _connection(self) -> busy.Connection:
        """Return the open connection; the file must exist."""
        if self.conn is None:
            status = os.lstat(self.filename)
            self.conn = busy.connect(self.filename, "rw")  # never makes a file that was just deleted
            self.conn.text_factory = bytes  # this module does not reject a text that is no UTF-8
            self._file = (status.st_dev, status.st_ino)
        return self.conn

    def _prepare_writing(self) -> None:
        if self._writable:
            return
        trust.make_trusted(self.container_dir)
        if not os.path.lexists(self.filename):
            _make_file(self.filename)
        connection = self._connection()
        if not connection.ask("SELECT 1 FROM sqlite_master WHERE name = 'dict'"):
            connection.ask("PRAGMA auto_vacuum = 'INCREMENTAL'")  # removed rows give their space back
            connection.ask(_CREATE)
        connection.ask("PRAGMA temp_store = 'MEMORY'")
        connection.ask("PRAGMA synchronous = 'OFF'")  # a crash may lose rows; readers verify
        self._writable = True

    def _bytes(self, value: object) -> bytes:
        if not isinstance(value, bytes):
            found = f"{value} bytes or more" if isinstance(value, int) else type(value).__name__
            raise DamagedEntry(f"a row of {self.filename} holds {found}, not the bytes of an entry")
        return value


def _check_index(connection: busy.Connection, key: str, row: int | None) -> None:
    """Raise `DatabaseError` unless the index has the key of a row, and the keys around it in their order.

    In an index that is out of order a new row may hide another one: the next run would miss it. Another process may
    have removed the row.
    """
    mine = (0, key.encode().hex().upper().encode())
    for reverse, command in enumerate(_AROUND):
        around = connection.ask(command, (key,))
        if around != sorted(set(around), reverse=bool(reverse)):
            raise sqlite3.DatabaseError("the index is out of order")
        if mine not in around and connection.ask(_IS_LACKING, (row, key, key)) == [(1,)]:
            raise sqlite3.DatabaseError("the index lacks a row")


def _is_absent(error: Exception) -> bool:
    """Tell whether the file is missing, or another process has just made it and not yet its table."""
    return isinstance(error, FileNotFoundError) or str(error) == "no such table: dict"


def _make_file(filename: str) -> None:
    try:
        os.close(os.open(filename, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass  # another process was faster


@contextmanager
def _in_words() -> Iterator[None]:
    """Raise `DatabaseError` for a damaged schema, where SQLite's message is no text."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(f"the database is damaged: {error}") from error
