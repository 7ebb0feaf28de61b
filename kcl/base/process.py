"""The states of this process: each module declares its own, and one table holds them all.

A module writes a class without parameters and gets a function that returns the one object of that class:

    class SeenNames(process.LockedState):
        def __init__(self) -> None:
            super().__init__()
            self.seen: dict[str, int] = {}

    _state = process.own(SeenNames)  # then _state().seen

`own` is for states of the cache: layers, statistics, settings. `shared` is for states of the process itself: functions
of other packages that kcl replaced, their locks, and facts about installed files. `reset` drops only the former.

A state may have these methods, all without parameters. The functions of this module with the names of the last three
call them:

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

A system may lack file locks or the folder `/proc`. Only `lock` and `proc` of this module use them.

These stay variables of their modules: constants, tables that imports fill, memos of pure functions, states of a thread
(`threading.local`), and the function that replaces `builtins.__import__`.
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

# The folder in which Linux describes its processes.
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
    """A state, or another object, with a reentrant lock: a signal handler may take it while its thread holds it.

    A forked child gets a new lock, since a thread of the parent may hold the old one.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _locked.add(self)


_locked = WeakSet[LockedState]()


def began() -> int:
    """Return the time at which this process was started; the time of kcl's import if the system does not say it."""
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
    """Open a file below `/proc`; raises `OSError` if the system has none."""
    return open(f"{PROC}/{name}", mode)


def lock(file: int, shared: bool = False, waits: bool = False) -> None:
    """Lock an open file. Raises `BlockingIOError` if another process has the lock, unless the call `waits` for it.

    Raises another `OSError` if the system, or the file system, has no locks.
    """
    if not HAS_LOCKS:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(file, how if waits else how | fcntl.LOCK_NB)


def unlock(file: int) -> None:
    """Release the lock of an open file, which a forked child may hold open too."""
    fcntl.flock(file, fcntl.LOCK_UN)


def own(kind: Callable[[], S]) -> Callable[[], S]:
    """Declare a state of the cache: return the function that returns this process's one object of the class `kind`."""

    def state() -> S:
        # No lock here: `_make` decides between two threads.
        present: S | None = _states.get(kind)
        return _make(kind) if present is None else present

    return state


def shared(kind: Callable[[], S]) -> Callable[[], S]:
    """Declare a state of the process, as `own` does; `reset` keeps it."""
    _lasting.add(kind)
    return own(kind)


def reset() -> None:
    """Drop the states of the cache, so that each is made again at its next use. Their `at_exit` is not called."""
    # Iterates over a copy, made in one step: another thread may add a state meanwhile.
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
    """Return the state of a class; the first call makes it. Safe in threads and signal handlers."""
    new = kind()
    # `setdefault` is one step: all threads get the object of the first one, and `at_exit` is registered once.
    state: S = _states.setdefault(kind, new)
    if state is new and hasattr(new, "at_exit"):
        atexit.register(_end, kind, new)
    return state


def _end(kind: Callable[[], Any], state: Any) -> None:
    # Nothing to do for a state that was dropped, or that belongs to the parent process.
    if kind in _states and _states[kind] is state:
        try:
            state.at_exit()
        finally:
            _keep_interrupt()


def _keep_interrupt() -> None:
    """Let a program that Ctrl-C has ended die of it, as shells expect.

    Python forgets that it has to, if a text is evaluated at the exit, as a NamedTuple does. It notes such an end again
    when a text raises the error. A session at a prompt survives Ctrl-C. So does a program that prints the error: then
    the trace begins at a frame that another one called.
    """
    trace = getattr(sys, "last_traceback", None)
    has_ended = trace is not None and trace.tb_frame.f_back is None and not hasattr(sys, "ps1")
    if has_ended and sys.last_type is KeyboardInterrupt:
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
