"""Lock files: a process holds one (flock) and signs it, and the others wait for that process within bounds.

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
        """Close the copies of the parent's descriptors, which would outlive its locks."""
        while self.descriptors:
            with suppress(OSError):
                os.close(self.descriptors.pop())


_state = process.own(OpenLocks)


def wait(has_gone: Callable[[], bool], longest: Callable[[], float]) -> bool:
    """Wait until the holder has gone; return False after the `longest` seconds, which are asked for again and again."""
    began, pause = time.monotonic(), _FIRST_PAUSE
    while not has_gone():
        if time.monotonic() - began > longest():
            return False
        time.sleep(pause)
        pause = min(pause * 1.3, _LONGEST_PAUSE)
    return True


def _longest_wait(descriptor: int) -> float:
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


def hold(path: str, at_once: bool, before_waiting: Callable[[], object]) -> int:
    """Return the descriptor of a file that is locked and signed; -1 if its holder has released it meanwhile.

    With `at_once` nobody is waited for, and -1 is returned. `before_waiting` is called before the wait. Raises the
    errors of the directory (`OSError`, `UnusableDirectory`).
    """
    folder = os.path.dirname(path)
    trust.make_trusted(folder)
    # Each process works alone there: locks of other nodes may answer late, or never.
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
            # A lock on a file that its last holder has removed leads to nothing: others lock a new file.
            if is_mine and is_at(path, descriptor):
                sign(descriptor)
                opened.pop_all()
                return descriptor
    return -1


def remove(path: str, descriptor: int) -> None:
    """Remove a lock file that this process holds, and let the others continue. Raises nothing."""
    # The file is removed while it is locked: after that its name may belong to another holder.
    with suppress(OSError):
        os.unlink(path)
    # A child forked by another library holds the file open too: closing alone would leave it the lock.
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
    """Wait until this process alone has locked an open file, and close it in the end.

    A file system without locks lets everybody in.
    """
    try:
        with suppress(OSError):
            process.lock(descriptor, waits=True)
        yield
    finally:
        os.close(descriptor)


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
    descriptor = trust.open_file(path, trust.LOCK)
    _state().descriptors.add(descriptor)
    return descriptor


def close_lock(descriptor: int) -> None:
    """Close a lock file."""
    _state().descriptors.discard(descriptor)
    os.close(descriptor)
