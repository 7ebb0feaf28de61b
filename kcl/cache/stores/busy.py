"""Connections to a file of SQLite that other processes use too: a step is tried again while they work on the file.

SQLite does not name the holder of a lock. A file that changes shows that a process works on it. The holder of a file
that does not change is stopped, does other work, or waits for its turn on a busy machine. It gets the patience for an
idle maker (`kcl.cache.patience`), times the number of processes that share a core.

SQLite itself waits for a short time, without Python's interpreter lock. A statement that changes the file keeps its
place then: later readers wait for it, so it ends with any number of readers. A fork waits for the end of that time: a
child must not inherit locks of SQLite.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from kcl.base import process
from kcl.base.settings import trust

if TYPE_CHECKING:
    from kcl.cache.patience import Signs

T = TypeVar("T")

_BUSY = ("database is locked", "database table is locked", "database schema is locked")
_AT_ONCE = 200  # milliseconds
_FORK_SECONDS = 1.0


class State:
    """The open connections, and by thread the turns that a forking thread holds back."""

    def __init__(self) -> None:
        self.open: WeakSet[Connection] = WeakSet()
        self.opening = threading.RLock()
        self.held: dict[int, list[threading.RLock]] = {}

    def before_fork(self) -> None:
        """Let running steps end: a child must not inherit locks of SQLite on files or in memory."""
        mine = self.held.setdefault(get_ident(), [])  # several threads may fork at once
        if self.opening.acquire(timeout=_FORK_SECONDS):
            mine.append(self.opening)
        for connection in list(self.open):
            if connection.turn.acquire(timeout=_FORK_SECONDS):
                mine.append(connection.turn)

    def after_fork_in_parent(self) -> None:
        """Let steps continue."""
        for turn in self.held.pop(get_ident(), ()):
            turn.release()

    def after_fork(self) -> None:
        """Let a child open connections of its own; the turns held by the parent's threads never end there."""
        self.after_fork_in_parent()
        self.open, self.opening = WeakSet(), threading.RLock()
        self.held.clear()


_state = process.shared(State)  # connections live as long as their layers, in any cache


class Connection(sqlite3.Connection):
    """A connection that waits for others while they work, and then raises `sqlite3.OperationalError`.

    Each statement is a transaction. Several threads may use the connection, one at a time.
    """

    path: str
    turn: threading.RLock  # a signal handler may launch in the same thread
    _gave_up = False

    def ask(self, command: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement's result."""
        return self.patiently(lambda: self.execute(command, values).fetchall())

    def patiently(self, step: Callable[[], T]) -> T:
        """Call a step that uses the file, again while the file is busy and others work."""
        try:
            return self._tried(step)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
        from kcl.cache.patience import Patience, crowd

        with Patience("rows of the generator layer", self.path) as patience:
            while not patience.is_over(self.path, _signs(self.path), f"those who use {self.path}", crowd()):
                time.sleep(0.001)  # a thread that forks takes its turn
                try:
                    return self._tried(step, _AT_ONCE)
                except sqlite3.OperationalError as error:
                    if not _is_busy(error):
                        raise
        self._gave_up = True
        return self._tried(step)

    def _tried(self, step: Callable[[], T], milliseconds: int = 0) -> T:
        with self.turn:
            if not milliseconds:
                done = step()
            else:
                self.execute(f"PRAGMA busy_timeout = {milliseconds}")
                try:
                    done = step()
                finally:
                    self.execute("PRAGMA busy_timeout = 0")
        if self._gave_up:
            from kcl.cache import patience

            self._gave_up = False
            patience.forgive(self.path)
        return done


def connect(path: str, mode: str) -> Connection:
    """Open an existing file, to read (``ro``) or to change (``rw``)."""
    uri = trust.database_uri(path, mode)
    with _state().opening:
        found = sqlite3.connect(
            uri, uri=True, timeout=0.0, isolation_level=None, check_same_thread=False, factory=Connection
        )
        found.path, found.turn = path, threading.RLock()
        _state().open.add(found)
    return found


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return str(error).startswith(_BUSY)


def _signs(path: str) -> Signs:
    """Return the signs of a file's last change. Its journal is no sign: a waiting process makes one too."""
    from kcl.cache.patience import Signs

    try:
        status = os.stat(path)
    except OSError:
        return Signs()
    return Signs(spent=(b"%d %d" % (status.st_mtime_ns, status.st_size),))
