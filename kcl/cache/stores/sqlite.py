"""A store with a row for each entry in one SQLite file, for many small entries.

The file's place, name and table are those of a PersistentDict of pytools. Rows hold the bytes of entries and are never
unpickled; kcl reads no file of pytools' own.

If the file is busy, SQLite waits for it in short sleeps, without Python's interpreter lock. It counts the sleeps, not the
time that passes, so a crowded machine waits longer. A statement that writes keeps its turn meanwhile: later readers wait
for it, so it ends however many readers there are. After a wait in vain the next statements do not wait, until the file
is free again. A busy file is no fault: it counts as having no row. A fork waits for the end of the running statement,
since a child must not inherit SQLite's locks.
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

_PATIENCE = 2.4  # seconds that SQLite sleeps in total; see above
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
    """Open stores, the lock that orders their statements, and connections inherited by fork."""

    def __init__(self) -> None:
        super().__init__()
        self.stores: WeakSet[Database] = WeakSet()
        self.inherited: list[sqlite3.Connection] = []

    def before_fork(self) -> None:
        """Wait for the running statement: a child must not inherit locks of SQLite on files or in memory."""
        self.lock.acquire(timeout=_FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Let statements continue that waited for the fork."""
        # `before_fork` gave up waiting, so this thread does not hold the lock.
        with suppress(RuntimeError):
            self.lock.release()

    def after_fork(self) -> None:
        """Have the child open its own connections. It keeps the parent's, since closing them would release locks."""
        for store in list(self.stores):
            self.inherited += [store.connection] if store.connection is not None else []
            store.connection = None


# `shared`, since a store may live on when the place of kcl's files changes.
_state = process.shared(OpenStores)


class Database:
    """One file, of any version of Python, to be read: for listings. A missing file has no rows.

    The file is opened at the first call, and again if it was replaced. Thread-safe: a lock lets one thread in at a time.
    """

    def __init__(self, path: str | os.PathLike[str], mode: str = "ro") -> None:
        self.location = os.path.abspath(path)
        # "rw" may change rows, but does not create a file that was just deleted.
        self._mode = mode
        self.connection: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._is_patient = True
        _state().stores.add(self)

    def __del__(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def get(self, address: str) -> bytes | None:
        """Return the bytes of a row. A row longer than `ROW_LIMIT` is cut, so that its digest will be wrong."""
        head = self.head(address, ROW_LIMIT)
        return None if head is None else head[1]

    def head(self, address: str, length: int) -> Head | None:
        """Return the stat and the first bytes of a row."""
        digest_of(address)
        for size, start in self.ask(_HEAD, length, address):
            # `substr` of an empty blob is NULL.
            return Stat(size, None), start or b""
        return None

    def scan(self) -> Iterator[str]:
        return (address for address, _head in self.heads(0))

    def heads(self, length: int) -> Iterator[tuple[str, Head]]:
        """Yield the address, the stat and the first bytes of each row; a statement fetches hundreds of rows."""
        last, seen = -1, set[bytes]()
        while rows := self.ask(_HEADS, length, last):
            for last, key, size, start in rows:  # noqa: B007 - the next statement goes on behind the last row
                # A damaged index may return a key twice.
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
        """Return the rows that a statement gives; none if the file or its table is missing."""
        return self._try(lambda connection: connection.execute(command, values).fetchall()) or []

    def _try(self, step: Callable[[sqlite3.Connection], T]) -> T | None:
        """Call `step` with the connection; return None if the file or its table is missing."""
        try:
            with _state().lock:
                connection = self._connect()
                done = None if connection is None else step(connection)
        except UnicodeDecodeError as error:
            # SQLite's message on a damaged schema may be no UTF-8.
            raise sqlite3.DatabaseError(f"the database is damaged: {error}") from error
        except sqlite3.OperationalError as error:
            # Another process has just made the file, and makes the table next.
            if str(error) == "no such table: dict":
                return None
            self._be_patient(not str(error).startswith(_BUSY))
            raise
        self._be_patient(True)
        return done

    def _be_patient(self, is_patient: bool) -> None:
        """Choose whether statements wait for a busy file, by a new connection."""
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
            # Several threads use the connection, but the lock lets only one in at a time.
            connection = sqlite3.connect(
                uri, timeout=seconds, isolation_level=None, check_same_thread=False, uri=True
            )
            # Texts are returned as bytes, so that one that is no UTF-8 raises no error.
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

    The file is made at the first `put`. The table does not record when a row was used. If the file stays busy, a `get`
    finds nothing and a `put` stores nothing. A damaged file is renamed to ``...damaged-1``, once in a process, and
    `DamagedEntry` is raised; a `put` then has stored its row in a new file.
    """

    writable = True

    def __init__(self, container_dir: str | os.PathLike[str]) -> None:
        # Named as pytools does, but with the minor release of Python only: the keys hold the minor release and the
        # bytecode's tag, so all patch releases find the same rows.
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
            # Another process may make the file at the same time.
            with suppress(FileExistsError):
                os.close(trust.open_file(self.location, os.O_RDWR | os.O_CREAT | os.O_EXCL))

        def step(connection: sqlite3.Connection) -> None:
            if self._prepared is not connection:
                _prepare(connection)
                self._prepared = connection
            # A damaged index may hide the row that this replaces; a look-up then misses and stores it again.
            connection.execute(
                "INSERT OR REPLACE INTO dict VALUES (?, ?)", (address, sqlite3.Binary(blob))
            )

        self._try(step)

    def _try(self, step: Callable[[sqlite3.Connection], T]) -> T | None:
        """Call `step`; return None if the file is busy. If it is damaged, rename it and raise DamagedEntry."""
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
        # So that removed rows give their space back. The mode counts only before the first table is made.
        connection.execute("PRAGMA auto_vacuum = 'INCREMENTAL'")
        connection.execute(_CREATE)
    connection.execute("PRAGMA temp_store = 'MEMORY'")
    # A crash may lose or damage rows: that is no harm, since readers verify them.
    connection.execute("PRAGMA synchronous = 'OFF'")
