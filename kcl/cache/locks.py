"""Lock files: a process locks a file (flock) and writes its id into it; others wait for it, but not without end.

The text of a lock file is "<process> <host>". The system releases the lock of a process that dies.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from kcl.base import process
from kcl.base.settings import trust

LONGEST_SECONDS = 60.0
UNKNOWN_SECONDS = 20.0
STOPPED = ("T", "t")  # states of a process that is stopped
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class OpenLocks:
    """The descriptors of the lock files of this process."""

    def __init__(self) -> None:
        self.descriptors: set[int] = set()

    def after_fork(self) -> None:
        """Close the copies of the parent's descriptors, which would keep its locks."""
        while self.descriptors:
            with suppress(OSError):
                os.close(self.descriptors.pop())


_state = process.own(OpenLocks)


def wait(has_gone: Callable[[], bool], longest: Callable[[], float]) -> bool:
    """Wait until `has_gone()`; return False after `longest()` seconds, which is called anew in each round."""
    began, pause = time.monotonic(), _FIRST_PAUSE
    while not has_gone():
        if time.monotonic() - began > longest():
            return False
        time.sleep(pause)
        pause = min(pause * 1.3, _LONGEST_PAUSE)
    return True


def _longest_wait(descriptor: int) -> float:
    """Return the seconds to wait at most for the process that holds a lock file."""
    number, _, host = os.pread(descriptor, 100, 0).decode("utf-8", "replace").partition(" ")
    state = state_of(number) if host == os.uname().nodename else ""
    if state in STOPPED:
        return 0.0
    return LONGEST_SECONDS if state else UNKNOWN_SECONDS


def state_of(number: str) -> str:
    """Return the letter of a process's state, as in `/proc/<number>/stat`; empty if the system does not know it."""
    try:
        with process.proc(f"{int(number)}/stat") as stream:
            # The program's name, in brackets before the state, may hold brackets itself.
            return str(stream.read().rpartition(b")")[2].split()[0], "ascii")
    except (OSError, IndexError, ValueError):
        return ""


def hold(path: str, at_once: bool, before_waiting: Callable[[], object]) -> int:
    """Lock the file at `path`, write this process's id into it, and return its descriptor.

    If another process has the lock, wait for it and return -1, since it has made the entry by then. `before_waiting` is
    called before the wait. With `at_once` it does not wait. Also returns -1 without locks. Raises the errors of the
    directory (`OSError`, `UnusableDirectory`).
    """
    folder = os.path.dirname(path)
    trust.make_trusted(folder)
    # On a network file system each process works alone: locks of other nodes may answer late, or never.
    if not process.HAS_LOCKS or trust.is_network(folder):
        return -1
    is_contended = False
    while not is_contended:
        with ExitStack() as opened:
            descriptor = open_lock(path)
            opened.callback(close_lock, descriptor)
            is_mine = try_lock(descriptor)
            is_contended = not is_mine
            if is_contended and not at_once:
                before_waiting()
                is_mine = wait(partial(try_lock, descriptor), partial(_longest_wait, descriptor))
            # If the last holder has removed the file, its lock is worth nothing: others lock a new file.
            if is_mine and is_at(path, descriptor):
                sign(descriptor)
                opened.pop_all()
                return descriptor
    return -1


def remove(path: str, descriptor: int) -> None:
    """Remove a lock file that this process holds, and let the others continue. Raises nothing."""
    # Removed while it is locked: later the name may belong to another holder's file.
    with suppress(OSError):
        os.unlink(path)
    # Unlocked before it is closed, since a child that another library forked may hold the file open.
    with suppress(OSError):
        process.unlock(descriptor)
    with suppress(OSError):
        close_lock(descriptor)


def try_lock(descriptor: int, shared: bool = False) -> bool:
    """Lock a file, unless another process has; return True if this process has the lock now."""
    try:
        process.lock(descriptor, shared)
    except BlockingIOError:
        return False
    return True


@contextmanager
def hold_alone(descriptor: int) -> Iterator[None]:
    """Lock an open file for the block, waiting for other processes, and close it at the end.

    Without locks of files the block is entered at once.
    """
    try:
        with suppress(OSError):
            process.lock(descriptor, waits=True)
        yield
    finally:
        os.close(descriptor)


def is_at(path: str, descriptor: int) -> bool:
    """Return True if the path still names the locked file, so that other processes lock the same one."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def sign(descriptor: int) -> None:
    """Write this process and its host into a lock file."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {os.uname().nodename}".encode(), 0)


def open_lock(path: str) -> int:
    """Open a lock file. A forked child closes its copy, which would keep the lock."""
    descriptor = trust.open_file(path, trust.LOCK)
    _state().descriptors.add(descriptor)
    return descriptor


def close_lock(descriptor: int) -> None:
    """Close a lock file."""
    _state().descriptors.discard(descriptor)
    os.close(descriptor)
