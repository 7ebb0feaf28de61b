"""Single flight: of the processes of a node that miss the same key at once, one makes the entry and the others wait.

    <kcl folder>/flight/<key digest>      held (flock) by the process that makes the entry; its text is the process id
    <kcl folder>/flight/<key digest>.1    by its successor, where it was given up; the successor's successor holds .2

Single flight saves work and is never needed for a right answer. After a wait a process looks again, and makes the entry
itself if it is still missing. The system releases the lock of a holder that dies, and a waiting process takes its
place. The others give up on a holder that is stopped or idle (`kcl.cache.patience`), and one of them is its successor.
The file is removed with the lock, so a lock covers one key only. The file of a holder that died alone stays, and the
next helper sweeps it after a day (`kcl.drivers.pocl`).

Within a process one thread takes the lead for all its threads: `kcl.cache.thread_leads` keeps the others waiting in
memory. So a thread never waits for a lock file of its own process. A thread that leads one key releases it before it
waits for another key: `join` calls `before_waiting`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from kcl.base import process
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.patience import Patience, Signs, signs_of
from kcl.cache.thread_leads import ThreadLead, ThreadLeads
from kcl.errors import CacheFault

if sys.platform != "win32":  # no flock on Windows: each process works alone
    import fcntl

_SUCCESSORS = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class State:
    """The leads of this process.

    `makers` are by the path of the lock file. `ours` are descriptors of this process. A forked child closes its copies,
    which would keep the locks after the parent's death.
    """

    def __init__(self) -> None:
        self.makers = ThreadLeads()
        self.ours: set[int] = set()

    def after_fork(self) -> None:
        """Close the copies of the parent's descriptors."""
        while self.ours:
            with suppress(OSError):
                os.close(self.ours.pop())


_state = process.own(State)


class ProcessLead:
    """The answer of `join`: the process that this thread has waited for, and the locks of a thread with the lead.

    `waited_for` is the id of the process that this one has waited for. `by` names the earlier holder of the lead in
    words. The `maker` makes other threads of this process wait, the file other processes.
    """

    __slots__ = ("_held", "_path", "_process", "by", "maker", "waited_for")

    def __init__(self, path: str = "", descriptor: int = -1, waited_for: str = "", by: str = "") -> None:
        self._path = path
        self._held = [descriptor] if descriptor >= 0 else []
        self._process = os.getpid()
        self.maker: ThreadLead | None = None
        self.waited_for = waited_for
        self.by = by or f"process {waited_for or 'another'}"

    @property
    def leads(self) -> bool:
        """Whether other processes wait for this one; a forked child leads no process."""
        return bool(self._held) and self._process == os.getpid()

    def release(self) -> None:
        """Let the others continue: the entry is published, or will not be. A second release is no error."""
        with suppress(IndexError):  # two threads may release it at once: one of them gets the descriptor
            self._unlock(self._held.pop())
        if self.maker is not None:
            self.maker.release()

    def _unlock(self, descriptor: int) -> None:
        if self._process == os.getpid():
            with suppress(OSError):
                os.unlink(self._path)
            with suppress(OSError):
                # a child forked by another library holds the file open too; closing alone would leave it the lock
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            with suppress(OSError):
                _close(descriptor)

    def __enter__(self) -> ProcessLead:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def join(digest: str, what: str, before_waiting: Callable[[], object] = lambda: None) -> ProcessLead:
    """Take the lead for a key, or wait for the thread or process that has it; `what` names the kernel in messages.

    A wait ends when the holder has released or died, or is given up (`kcl.cache.patience`). Of the processes that gave
    up a holder one takes the lead, and the others wait for it. `before_waiting` is called before each wait, at times
    more than once. Raises the errors of the directory (`OSError`, `UnusableDirectory`). Thread-safe.
    """
    path = os.path.join(places.own(places.FLIGHT), digest)
    maker = _state().makers.lead(path)
    if maker is None:
        before_waiting()
        _state().makers.wait(path, what)
        return ProcessLead(by="another thread")
    try:
        with Patience(what) as patience:
            held = _among_processes(path, Wait(patience, before_waiting))
        held.maker = maker
    except BaseException:
        maker.release()
        raise
    return held


def holder(digest: str) -> str:
    """Return the id of the process that makes the entry of a key now; empty without a known process."""
    with suppress(OSError, CacheFault):
        with open(os.path.join(places.own(places.FLIGHT), digest), "rb") as stream:
            found = _signature(stream.fileno())
        if found and signs_of(found) != Signs():
            return found
    return ""


def _among_processes(path: str, waiting: Wait) -> ProcessLead:
    """Take the lead for all threads of this process, or wait for the process that has it."""
    if sys.platform == "win32":
        return ProcessLead()
    folder = os.path.dirname(path)
    trust.make_trusted(folder)
    if trust.is_network(folder):  # locks of other nodes may answer late, or never
        return ProcessLead()
    for place in (path, *(f"{path}.{successor}" for successor in range(1, 1 + _SUCCESSORS))):
        waiting.for_another()
        held = _join(place, waiting)
        if held.leads or not waiting.patience.gave_up:
            break
    return held


def _join(path: str, waiting: Wait) -> ProcessLead:
    """Take the lock of a file, or wait for its holder."""
    while True:
        descriptor = os.open(path, trust.LOCK, 0o600)
        _state().ours.add(descriptor)
        try:
            locked = waiting.until_locked(descriptor)
            if locked and _is_at(path, descriptor):
                _sign(descriptor)
                return ProcessLead(path, descriptor, waiting.waited_for)
        except BaseException:
            _close(descriptor)
            raise
        _close(descriptor)  # the lock was released, or this thread waits no longer
        if waiting.holder:
            return ProcessLead(waited_for=waiting.holder)


def _close(descriptor: int) -> None:
    _state().ours.discard(descriptor)
    os.close(descriptor)


class Wait:
    """A wait for the processes that have a lead: the ids of the `holder` and of the last process waited for."""

    def __init__(self, patience: Patience, before_waiting: Callable[[], object]) -> None:
        self.patience = patience
        self._before_waiting = before_waiting
        self.holder = self.waited_for = ""

    def for_another(self) -> None:
        """Begin to wait for an unknown holder: a successor has the lock before its id is in the file."""
        self.holder = ""
        self.patience.begin_again()

    def until_locked(self, descriptor: int) -> bool:
        """Try to lock until it works or the patience is over; tell whether it worked."""
        pause = _FIRST_PAUSE
        while not _lock(descriptor):
            self._before_waiting()
            self.holder = self.waited_for = _signature(descriptor) or self.holder or "another"
            if self.patience.is_over(self.holder, signs_of(self.holder)):
                return False
            time.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_PAUSE)
        return True


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: str, descriptor: int) -> bool:
    """Tell whether the locked file is the one that other processes will find."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)


def _signature(descriptor: int) -> str:
    text = os.pread(descriptor, 20, 0)
    return text.decode() if text.isdigit() else ""
