"""The state of this process: each module declares its state, and one table holds all states.

A module writes a class without parameters and gets a function that returns the one object of that class:

    class SeenNames(process.LockedState):
        def __init__(self) -> None:
            super().__init__()
            self.seen: dict[str, int] = {}

    _state = process.own(SeenNames)  # then _state().seen

`own` is for state of the cache: layers, statistics, settings. `shared` is for state of the process itself: functions of
other packages that kcl replaced, the locks around those, and facts about installed files. `reset` leaves it alone.

A state may have these methods, all without parameters. The last three are called by the functions of their names:

    before_fork            a thread is about to fork; the states that were made last come first
    after_fork_in_parent   the fork is over, in the parent; the states come in the order in which they were made
    after_fork             the fork is over, in the child; the states come in the order in which they were made
    at_exit                the process ends; this is called once
    in_worker              the process is a worker, which a signal may end; this is called every now and then
    before_change          the place of kcl's files is about to change; the states that were made last come first
    on_change              the place of kcl's files changed

A forked child keeps the states of its parent. A state with `at_exit` is the exception: it belongs to the process that
made it, and the child makes its own at the first use. `at_exit` of the state that was made last is called first, as
`atexit` does it. So a module makes a state with `at_exit` only when it has work to do at exit.

All locks of kcl are those of `LockedState`. Python's own `functools.cached_property` has a lock before
Python 3.12, one for all objects of a class, and no forked child renews it: kcl has `kcl.base.computed_once`.

A system may lack locks of files and the folder `/proc`. kcl asks for them here alone: `lock` and `proc`.

A module keeps constants for itself, tables that imports fill, memos of pure functions, the state of a thread
(`threading.local`), and the function that stands in place of `builtins.__import__`.
"""

from __future__ import annotations

import atexit
import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, TypeVar
from weakref import WeakSet

try:
    import fcntl
except ImportError:
    # Windows has no `fcntl`.
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

# The folder of Linux about its processes.
PROC = "/proc"

S = TypeVar("S")

# The time when kcl was imported in this process, or in the process that forked it.
STARTED = time.time_ns()

# The modules that were imported before kcl.
BEFORE = frozenset(sys.modules)

_states: dict[Callable[[], Any], Any] = {}
# The classes of the states that `reset` leaves alone.
_lasting: set[Callable[[], Any]] = set()


class LockedState:
    """A state, or another object, with a lock, which its holder may take again, as a signal handler does.

    A forked child has a new lock, since a thread of the parent may hold the old one.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _locked.add(self)


_locked = WeakSet[LockedState]()


def began() -> int:
    """Return the time at which this process was started, that of kcl's import where the system does not say it."""
    try:
        with proc("self/stat") as stream:
            # The program's name, in brackets, may hold blanks and brackets: the fields are counted
            # from the last one. The start is the twentieth of them, in ticks since the system's
            # start.
            ticks = int(stream.read().rpartition(b")")[2].split()[19])
        # The system may let this process wait between two readings: the difference is too small then.
        booted = max(
            time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) for _reading in range(5)
        )
        return min(booted + (ticks + 1) * 10**9 // os.sysconf("SC_CLK_TCK"), STARTED)
    except (OSError, ValueError, IndexError, AttributeError):
        return STARTED


def proc(name: str, mode: str = "rb") -> IO[Any]:
    """Open a file of the system about its processes; raises `OSError` if the system has none."""
    return open(f"{PROC}/{name}", mode)


def lock(file: int, shared: bool = False, waits: bool = False) -> None:
    """Lock an open file. Raises `BlockingIOError` if another process has the lock, unless this `waits` for it.

    A file system, or a system, without locks is another `OSError`.
    """
    if not HAS_LOCKS:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(file, how if waits else how | fcntl.LOCK_NB)


def unlock(file: int) -> None:
    """Release the lock of an open file, which a forked child may hold open too."""
    fcntl.flock(file, fcntl.LOCK_UN)


def own(kind: Callable[[], S]) -> Callable[[], S]:
    """Return a function that returns the state of a class in this process."""

    def state() -> S:
        # No lock here: `_make` decides between two threads.
        present: S | None = _states.get(kind)
        return _make(kind) if present is None else present

    return state


def shared(kind: Callable[[], S]) -> Callable[[], S]:
    """Return a function that returns the state of a class; the state outlives a `reset`."""
    _lasting.add(kind)
    return own(kind)


def reset() -> None:
    """Drop the states of the cache, so that each is made again at its next use. Their `at_exit` is not called."""
    # The list is made in one step: a thread may make a state meanwhile.
    for kind in [*_states]:
        if kind not in _lasting:
            _states.pop(kind, None)


def before_change() -> None:
    """Tell the states to write their files at the current place of kcl's files."""
    _tell("before_change")


def on_change() -> None:
    """Tell the states that the place of kcl's files changed."""
    _tell("on_change")


def in_worker() -> None:
    """Tell the states of a worker to write what they hold."""
    _tell("in_worker")


def _make(kind: Callable[[], S]) -> S:
    """Return the state of a class, and make it at the first call. Safe in threads and signal handlers."""
    new = kind()
    # One step: all threads get the state of the first, and only that one ends with the process.
    state: S = _states.setdefault(kind, new)
    if state is new and hasattr(new, "at_exit"):
        atexit.register(_end, kind, new)
    return state


def _end(kind: Callable[[], Any], state: Any) -> None:
    # A state that was dropped, or that is the parent's, has no end here.
    if kind in _states and _states[kind] is state:
        try:
            state.at_exit()
        finally:
            _keep_interrupt()


def _keep_interrupt() -> None:
    """Let a program that Ctrl-C has ended die of it, as shells expect.

    Python forgets that it has to, if a text is evaluated at the exit, as a NamedTuple does. It notes such an end again
    when a text raises the error. A session at a prompt survives Ctrl-C.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt and not hasattr(sys, "ps1"):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def _tell(method: str) -> None:
    """Call a method of every state that has it. After an error of one state the others are still called."""
    states = list(_states.values())
    faults: list[BaseException] = []
    for state in reversed(states) if method.startswith("before_") else states:
        try:
            if hasattr(state, method):
                getattr(state, method)()
        except BaseException as error:
            faults.append(error)
    if faults:
        raise faults[0]


def _after_fork() -> None:
    """Prepare a forked child: drop the states with `at_exit`, which are the parent's, and tell the others."""
    for kind in [kind for kind, state in _states.items() if hasattr(state, "at_exit")]:
        del _states[kind]
    for locked in _locked:
        locked.lock = threading.RLock()
    _tell("after_fork")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _tell("before_fork"),
        after_in_parent=lambda: _tell("after_fork_in_parent"),
        after_in_child=_after_fork,
    )
