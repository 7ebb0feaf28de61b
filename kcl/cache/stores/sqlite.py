"""A store of rows in one SQLite file, in place, name and table a PersistentDict of pytools: for many small entries.

Rows hold the bytes of entries and are never unpickled. A file of pytools' own holds pickles, and kcl reads none.

SQLite waits for a busy file, without Python's interpreter lock. It adds up its naps and not the time: on a crowded
machine each nap takes longer, as the holder of the lock does. A statement that changes the file keeps its place then:
later readers wait for it, so it ends with any number of readers. After a wait in vain nothing waits until the file
works again: a busy file is no fault, and has no row for the look-up that met it. A fork waits for the end of a step,
because a child must not inherit locks of SQLite.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from kcl.base import process
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores import ROW_LIMIT, Head, Stat, digest_of
from kcl.errors import DamagedEntry

T = TypeVar("T")

_PATIENCE = 2.4  # seconds that SQLite sleeps in all: see above
_FORK_SECONDS = 1.0
_BUSY = ("database is locked", "database table is locked", "database schema is locked")
_CREATE = (
    "CREATE TABLE IF NOT EXISTS dict (keyhash TEXT NOT NULL PRIMARY KEY, key_value TEXT NOT NULL)"
)
_HEAD = "SELECT length(key_value), substr(key_value, 1, ?) FROM dict WHERE keyhash = ?"
_HEADS = (
    "SELECT rowid, keyhash, length(key_value), substr(key_value, 1, ?) FROM dict "
    "WHERE rowid > ? ORDER BY rowid LIMIT 500"
)


class OpenStores(process.LockedState):
    """The stores of this process, the turn of their steps, and the connections of its parent."""

    def __init__(self) -> None:
        super().__init__()
        self.stores: WeakSet[Database] = WeakSet()
        self.inherited: list[sqlite3.Connection] = []

    def before_fork(self) -> None:
        """Let a running step end: a child must not inherit locks of SQLite on files or in memory."""
        self.lock.acquire(timeout=_FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Let the steps go on that waited for the fork."""
        # The step took too long, and this thread has no turn.
        with suppress(RuntimeError):
            self.lock.release()

    def after_fork(self) -> None:
        """Let the child open connections of its own, and never close those of its parent."""
        for store in list(self.stores):
            self.inherited += [store.connection] if store.connection is not None else []
            store.connection = None


# Stores live as long as their layers, in any cache.
_state = process.shared(OpenStores)


class Database:
    """The rows of one file of any version of Python, to read: for listings. A missing file has no rows.

    The file is opened at the first call, and again after it was replaced. Several threads may use the stores, one at a
    time.
    """

    def __init__(self, path: str | os.PathLike[str], mode: str = "ro") -> None:
        self.location = os.path.abspath(path)
        # `rw` changes rows, and never makes a file that was just deleted.
        self._mode = mode
        self.connection: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._is_patient = True
        _state().stores.add(self)

    def __del__(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def get(self, address: str) -> bytes | None:
        """Return the bytes of a row, at most as many as a row may have: a longer one is cut, so its digest is wrong."""
        head = self.head(address, ROW_LIMIT)
        return None if head is None else head[1]

    def head(self, address: str, length: int) -> Head | None:
        """Return the stat and the first bytes of a row."""
        digest_of(address)
        for size, start in self.ask(_HEAD, length, address):
            # SQLite gives other values as text, and NULL for no bytes.
            return Stat(size, None), start or b""
        return None

    def scan(self) -> Iterator[str]:
        return (address for address, _head in self.heads(0))

    def heads(self, length: int) -> Iterator[tuple[str, Head]]:
        """Yield the address, the stat and the first bytes of each row, in few statements."""
        last, seen = -1, set[bytes]()
        while rows := self.ask(_HEADS, length, last):
            for last, key, size, start in rows:  # noqa: B007 - the next statement goes on behind the last row
                # A damaged index may have a key twice.
                if isinstance(key, bytes) and key not in seen:
                    seen.add(key)
                    try:
                        digest_of(place := key.decode())
                    except ValueError:
                        continue
                    yield place, (Stat(size, None), start or b"")

    def count(self, marker: bytes, length: int) -> int:
        """Count the rows with the bytes of `marker` among their first `length` bytes."""
        rows = self.ask(
            "SELECT count(*) FROM dict WHERE instr(substr(key_value, 1, ?), ?)", length, marker
        )
        return int(rows[0][0]) if rows else 0

    def ask(self, command: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement's result; none without a file or a table."""
        return self._try(lambda connection: connection.execute(command, values).fetchall()) or []

    def _try(self, step: Callable[[sqlite3.Connection], T]) -> T | None:
        """Call a step with the connection; None for a missing or unfinished file."""
        try:
            with _state().lock:
                connection = self._connect()
                done = None if connection is None else step(connection)
        except UnicodeDecodeError as error:
            # SQLite's message on a damaged schema is no UTF-8.
            raise sqlite3.DatabaseError(f"the database is damaged: {error}") from error
        except sqlite3.OperationalError as error:
            # Another process has just made the file.
            if str(error) == "no such table: dict":
                return None
            self._be_patient(not str(error).startswith(_BUSY))
            raise
        self._be_patient(True)
        return done

    def _be_patient(self, is_patient: bool) -> None:
        """Have the next connection wait for a busy file, or not."""
        if is_patient != self._is_patient:
            self._is_patient = is_patient
            self._close()

    def _connect(self) -> sqlite3.Connection | None:
        """Return the connection to the current file; None for a missing file."""
        folder = os.path.dirname(self.location)
        try:
            status = os.lstat(self.location)
        except (FileNotFoundError, NotADirectoryError):
            self._close()
            trust.check(folder)
            return None
        # SQLite would wait for a FIFO, or write through a link.
        for suffix in trust.SIDECARS:
            with suppress(FileNotFoundError):
                trust.check_database(self.location + suffix)
        if self.connection is None or self._file != (status.st_dev, status.st_ino):
            self._close()
            trust.check(folder)
            trust.check_database(self.location)
            uri = trust.database_uri(self.location, self._mode)
            seconds = _PATIENCE if self._is_patient else 0.0
            # The turn gives the connection to one thread at a time, whichever that is.
            connection = sqlite3.connect(
                uri, timeout=seconds, isolation_level=None, check_same_thread=False, uri=True
            )
            # A text that is no UTF-8 comes as bytes, and is no error.
            connection.text_factory = bytes
            self.connection, self._file = connection, (status.st_dev, status.st_ino)
        return self.connection

    def _close(self) -> None:
        with _state().lock:
            connection, self.connection = self.connection, None
            if connection is not None:
                connection.close()


class Rows(Database):
    """Keep each blob as a row of one file, in the folder that pytools uses.

    The file is made at the first `put`. The table has no place for the time of a use. A method waits for a busy file;
    then a `get` finds nothing, and a `put` keeps nothing. A damaged file is renamed to ``...damaged-1``, once per
    process, and reported by `DamagedEntry`: a `get` then finds nothing, and a `put` has kept its row in a new file.
    """

    writable = True

    def __init__(self, container_dir: str | os.PathLike[str]) -> None:
        # As pytools names it, but one file for a minor release of Python: keys hold the minor release too, and the tag
        # of the bytecode, so all patch releases find the same rows.
        python = "{}.{}".format(*sys.version_info)
        name = f"{places.DICTIONARY}{places.GENERATED}-{python}{places.DATABASE}"
        super().__init__(os.path.join(container_dir, name), "rw")
        self._prepared: sqlite3.Connection | None = None
        self._set_aside = False

    def put(self, address: str, blob: bytes) -> None:
        digest_of(address)
        if len(blob) > ROW_LIMIT:
            raise ValueError(f"{len(blob)} bytes are above the limit of {ROW_LIMIT} for a row")
        try:
            self._store(address, blob)
        except DamagedEntry:
            if not os.path.lexists(self.location):
                self._store(address, blob)
            raise

    def delete(self, address: str) -> None:
        digest_of(address)
        self.ask("DELETE FROM dict WHERE keyhash = ?", address)

    def _store(self, address: str, blob: bytes) -> None:
        if not os.path.lexists(self.location):
            trust.make_trusted(os.path.dirname(self.location))
            # Another process was faster.
            with suppress(FileExistsError):
                os.close(trust.open_file(self.location, os.O_RDWR | os.O_CREAT | os.O_EXCL))

        def step(connection: sqlite3.Connection) -> None:
            if self._prepared is not connection:
                _prepare(connection)
                self._prepared = connection
            # An index out of order may hide another row: that is missed once more, and put again.
            connection.execute(
                "INSERT OR REPLACE INTO dict VALUES (?, ?)", (address, sqlite3.Binary(blob))
            )

        self._try(step)

    def _try(self, step: Callable[[sqlite3.Connection], T]) -> T | None:
        """Call a step as `Database` does; None for a busy file. Set the file aside if the error shows damage."""
        try:
            return super()._try(step)
        except sqlite3.Error as error:
            if str(error).startswith(_BUSY):
                return None
            from kcl.cache.stores import damage

            if self._set_aside or not damage.is_shown(error, self.location):
                raise
            self._set_aside = True
            with _state().lock:
                self._close()
                damage.put_aside(self.location, self._file)
            aside = self.location + places.ASIDE
            raise DamagedEntry(
                f"{self.location} was damaged ({error}) and is now {aside}"
            ) from error


def _prepare(connection: sqlite3.Connection) -> None:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'dict'").fetchall():
        # Removed rows give their space back. An existing table keeps the mode that it was made in.
        connection.execute("PRAGMA auto_vacuum = 'INCREMENTAL'")
        connection.execute(_CREATE)
    connection.execute("PRAGMA temp_store = 'MEMORY'")
    # A crash may lose rows, and readers verify.
    connection.execute("PRAGMA synchronous = 'OFF'")
