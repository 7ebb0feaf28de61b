"""Lock files: a process holds one (flock) and signs it, and the others wait for that process within bounds.

The text of a lock file is "<process> <host>". The system releases the lock of a process that dies.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
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
        """Close the copies of the parent's descriptors, which would outlive its locks."""
        while self.descriptors:
            with suppress(OSError):
                os.close(self.descriptors.pop())


_state = process.own(OpenLocks)


def wait(has_gone: Callable[[], bool], worth: Callable[[], float]) -> bool:
    """Wait until the holder has gone; return False if it is not `worth` waiting longer, in seconds from the begin."""
    began, pause = time.monotonic(), _FIRST_PAUSE
    while not has_gone():
        if time.monotonic() - began > worth():
            return False
        time.sleep(pause)
        pause = min(pause * 1.3, _LONGEST_PAUSE)
    return True


def wait_for_holder(descriptor: int) -> bool:
    """Wait for the process that holds a lock file, within bounds; return True if this process has the lock then."""
    return wait(partial(is_locked, descriptor), partial(_worth, descriptor))


def _worth(descriptor: int) -> float:
    """Return the seconds that it is worth waiting for the process that holds a lock file."""
    number, _, host = os.pread(descriptor, 100, 0).decode("utf-8", "replace").partition(" ")
    state = state_of(number) if host == os.uname().nodename else ""
    if state in STOPPED:
        return 0.0
    return LONGEST_SECONDS if state else UNKNOWN_SECONDS


def state_of(number: str) -> str:
    """Return the letter of a process's state; empty for a process that the system does not know."""
    try:
        with process.proc(f"{int(number)}/stat") as stream:
            # The program's name, in brackets before the state, may hold brackets itself.
            return str(stream.read().rpartition(b")")[2].split()[0], "ascii")
    except (OSError, IndexError, ValueError):
        return ""


def is_locked(descriptor: int, shared: bool = False) -> bool:
    """Try to lock a file; return True if this process has the lock."""
    try:
        process.lock(descriptor, shared)
    except BlockingIOError:
        return False
    return True


def is_at(path: str, descriptor: int) -> bool:
    """Return True if the locked file is the one that other processes will find."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def sign(descriptor: int) -> None:
    """Write this process and its host into a lock file."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {os.uname().nodename}".encode(), 0)


def open_lock(path: str) -> int:
    """Open a lock file of this process, which a forked child closes: a copy would outlive the lock."""
    descriptor = trust.opened(path, trust.LOCK)
    _state().descriptors.add(descriptor)
    return descriptor


def close_lock(descriptor: int) -> None:
    """Close a lock file."""
    _state().descriptors.discard(descriptor)
    os.close(descriptor)
