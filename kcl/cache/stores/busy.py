"""Connections to a file of SQLite that other processes use too: a step is tried again while they work on the file.

Who holds a lock of SQLite is not known. As long as the file changes, somebody works. A file that does not change is
held by a process that is stopped, or does something else: it has the patience that an idle maker has
(`kcl.cache.patience`).

SQLite itself waits for a while, without Python's interpreter lock. A statement that changes the file keeps its place
then: the readers who come later wait for it, so it ends however many they are.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kcl.cache.patience import Signs

T = TypeVar("T")

_BUSY = ("database is locked", "database table is locked", "database schema is locked")
_AT_ONCE = 200  # milliseconds


class Connection(sqlite3.Connection):
    """A connection that waits for others while they work, and then raises `sqlite3.OperationalError`.

    Each statement is a transaction. Several threads may use the connection, one at a time.
    """

    path: str

    def ask(self, command: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows that a statement finds."""
        return self.patiently(lambda: self.execute(command, values).fetchall())

    def patiently(self, step: Callable[[], T]) -> T:
        """Call what uses the file, again while that is busy and others work."""
        try:
            return step()
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            refused = error
        from kcl.cache.patience import Patience

        with Patience("rows of the generator layer", "files") as patience:
            while not patience.is_over(self.path, _signs(self.path), f"those who use {self.path}"):
                self.execute(f"PRAGMA busy_timeout = {_AT_ONCE}")
                try:
                    return step()
                except sqlite3.OperationalError as error:
                    if not _is_busy(error):
                        raise
                    refused = error
                finally:
                    self.execute("PRAGMA busy_timeout = 0")
        raise refused


def connect(path: str, mode: str) -> Connection:
    """Open a file that is there, to read (``ro``) or to change (``rw``)."""
    quoted = path
    for character in "%?#":
        quoted = quoted.replace(character, f"%{ord(character):02x}")
    uri = f"file:{'///' + quoted.replace(os.sep, '/') if os.name == 'nt' else quoted}?mode={mode}"
    found = sqlite3.connect(
        uri, uri=True, timeout=0.0, isolation_level=None, check_same_thread=False, factory=Connection
    )
    found.path = path
    return found


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return str(error).startswith(_BUSY)


def _signs(path: str) -> Signs:
    """Return how far the work on a file is: when it was changed, and so the journal that can undo the change."""
    from kcl.cache.patience import Signs

    spent = []
    for name in (path, path + "-journal"):
        with suppress(OSError):
            status = os.stat(name)
            spent.append(b"%d %d" % (status.st_mtime_ns, status.st_size))
    return Signs(spent=tuple(spent))
