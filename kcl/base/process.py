"""The state of this process: each module declares its state, and one object holds all states.

A module writes a class without parameters and gets a function that returns the one object of that class:

    class State(process.Locked):
        def __init__(self) -> None:
            super().__init__()
            self.seen: dict[str, int] = {}

    _state = process.own(State)  # then _state().seen

`own` is for state of a cache: layers, statistics, settings. A test exchanges the `Process` and so has a second cache.
`shared` is for state of the process itself: functions of other packages that kcl replaced, the locks around those, and
facts about installed files. `swapped` and `reset` leave it alone.

A state may have these methods, all without parameters:

    before_fork            a thread is about to fork; the states that were made last come first
    after_fork_in_parent   the fork is over, in the parent; the states come in the order in which they were made
    after_fork             the fork is over, in the child; the states come in the order in which they were made
    at_exit                the process ends; this is called once
    before_change          the place of kcl's files is about to change; the states that were made last come first
    on_change              the place of kcl's files changed

A forked child keeps the states of its parent. A state with `at_exit` is the exception: it belongs to the process that
made it, and the child makes its own at the first use. `at_exit` of the state that was made last is called first, as
`atexit` does it. So a module makes a state with `at_exit` only when it has work to do at exit.

A module keeps the objects that all caches have in common for itself: constants, tables that imports fill, memos of pure
functions (`functools.cache`, digests of code objects), the state of a thread (`threading.local`), and the function that
stands in place of `builtins.__import__`.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar
from weakref import WeakSet

S = TypeVar("S")

STARTED = time.time_ns()  # the time when kcl was imported in this process, or in the process that forked it


class Process:
    """The states of one cache: an object of each class that a module gave to `own`."""

    def __init__(self) -> None:
        self.states: dict[Callable[[], Any], Any] = {}
        self._owed: dict[Callable[[], Any], Any] = {}  # the states with an `at_exit` still to be called
        _all.add(self)

    def make(self, kind: Callable[[], S]) -> S:
        """Return the state of a class, and make it at the first call. Safe in threads and signal handlers."""
        new = kind()
        found: S = self.states.setdefault(kind, new)
        if found is new and hasattr(new, "at_exit"):
            self._owed[kind] = new
            atexit.register(self._end, kind, new)
        return found

    def tell(self, method: str) -> None:
        """Call a method of every state that has it. After an error of one state the others are still called."""
        states = list(self.states.values())
        faults: list[BaseException] = []
        for state in reversed(states) if method.startswith("before_") else states:
            try:
                getattr(state, method, _nothing)()
            except BaseException as error:
                faults.append(error)
        if faults:
            raise faults[0]

    def reset(self) -> None:
        """Drop all states, so that each is made again at its next use. Their `at_exit` is not called."""
        atexit.unregister(self._end)
        self._owed.clear()
        self.states.clear()

    def end(self) -> None:
        """Call `at_exit` of the states now."""
        for kind, state in reversed(list(self._owed.items())):
            self._end(kind, state)

    def begin_child(self) -> None:
        """Prepare a forked child: drop the states with `at_exit`, which are the parent's, and tell the others."""
        atexit.unregister(self._end)
        self._owed.clear()
        for kind in [kind for kind, state in self.states.items() if hasattr(state, "at_exit")]:
            del self.states[kind]
        self.tell("after_fork")

    def _end(self, kind: Callable[[], Any], state: Any) -> None:
        if kind in self._owed and self._owed[kind] is state:
            del self._owed[kind]
            with nullcontext() if self is _shared else swapped(self):
                state.at_exit()


class LockedState:
    """A state with a lock, which its holder may take again, as a signal handler does.

    A forked child has a new lock, since a thread of the parent may hold the old one.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def after_fork(self) -> None:
        self.lock = threading.RLock()


_all: WeakSet[Process] = WeakSet()
_shared = Process()  # the states that all caches of the process have in common
_current = Process()
_states = _current.states  # kept beside `_current`, since every `_state()` of every module reads it


def own(kind: Callable[[], S]) -> Callable[[], S]:
    """Return a function that returns the state of a class in the cache that is in use."""

    def state() -> S:
        found: S | None = _states.get(kind)
        return _current.make(kind) if found is None else found

    return state


def shared(kind: Callable[[], S]) -> Callable[[], S]:
    """Return a function that returns the state of a class that all caches of the process have in common."""
    states = _shared.states

    def state() -> S:
        found: S | None = states.get(kind)
        return _shared.make(kind) if found is None else found

    return state


def current() -> Process:
    """Return the states of the cache that is in use."""
    return _current


@contextmanager
def swapped(other: Process) -> Iterator[Process]:
    """Use the states of `other` within the block, in all threads: `Process()` is a second, fresh cache."""
    before = _current
    _use(other)
    try:
        yield other
    finally:
        _use(before)


def _use(process: Process) -> None:
    global _current, _states
    _current, _states = process, process.states


def reset() -> None:
    """Drop all states of the cache that is in use."""
    _current.reset()


def changing() -> None:
    """Tell the states of the cache that is in use to write their files at the current place of kcl's files."""
    _current.tell("before_change")


def changed() -> None:
    """Tell the states of the cache that is in use that the place of kcl's files changed."""
    _current.tell("on_change")


def _nothing() -> None:
    """Stand for a method that a state does not have."""


def _before_fork() -> None:
    for process in list(_all):
        process.tell("before_fork")


def _after_fork_in_parent() -> None:
    for process in list(_all):
        process.tell("after_fork_in_parent")


def _after_fork() -> None:
    for process in list(_all):
        process.begin_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork)
