"""Thread leads: of the threads of this process that want one key, one makes it and the others wait for it in memory.

The thread with the lead is the maker, a row in a table, by key. Taking the row is one step of the interpreter, and a
waiting thread holds no lock. So a launch from a signal handler or a finaliser, at any point of the same thread, meets
no lock of this module.

Waiting saves work and is never needed for a right answer. A thread stops waiting for an idle maker
(`kcl.cache.patience`). A thread does not wait for itself: neither for a key that it makes, nor for a maker that waits,
through others, for this thread. A forked child has none of its parent's threads, so it ignores the parent's makers.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, get_native_id
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import get_ident

from kcl.base import process

_SLICE_SECONDS = 0.1


class State:
    """The maker that each thread waits for, by the thread's number."""

    def __init__(self) -> None:
        self.awaited: dict[int, ThreadLead] = {}


_state = process.own(State)


class ThreadLead:
    """The lead of the thread that makes the value of a key; other threads wait until the maker releases."""

    __slots__ = ("_gate", "_key", "_native", "_released", "_table", "process", "thread")

    def __init__(self, table: dict[str, ThreadLead], key: str) -> None:
        self._table = table
        self._key = key
        self._released = False
        self._gate = allocate_lock()
        self._gate.acquire()
        self.process = os.getpid()
        self.thread = get_ident()
        self._native = get_native_id()

    def release(self) -> None:
        """Let the other threads continue. A second release is no error; a forked child releases nothing."""
        if self.process == os.getpid() and not self._released:
            self._leave()  # first: a signal handler must not find a released maker in the table
            self._released = True
            self._open()

    def wait(self, what: str) -> bool:
        """Wait until the maker releases, and tell whether it did; `what` names the kernel in messages."""
        me = get_ident()
        awaited = _state().awaited
        outer = awaited.get(me)  # the maker of the call that a signal handler interrupted
        awaited[me] = self
        try:
            return not self._waits_for(me) and self._releases(what)
        finally:
            if outer is None:
                awaited.pop(me, None)
            else:
                awaited[me] = outer

    def _waits_for(self, thread: int) -> bool:
        """Tell whether the maker is this thread, or waits for it through others; False after the release."""
        maker: ThreadLead | None = self
        for _ in range(len(_state().awaited) + 1):
            if maker is None or maker._released:
                return False
            if maker.thread == thread:
                return True
            maker = _state().awaited.get(maker.thread)
        return False

    def _releases(self, what: str) -> bool:
        from kcl.cache.patience import Patience, signs_of_thread

        name = f"thread {self._native}"
        with Patience(what) as patience:
            while not self._released:
                if self.process != os.getpid():
                    return False
                signs = signs_of_thread(self.thread, self._native)
                if patience.is_over(name, signs, "another thread of this process"):
                    self._leave()  # no other thread waits for it
                    return False
                if self._gate.acquire(timeout=_SLICE_SECONDS):
                    self._open()
        return True

    def _open(self) -> None:
        """Let one waiting thread through the gate; that thread lets the next one through."""
        with suppress(RuntimeError):  # two threads may release one maker at once
            self._gate.release()

    def _leave(self) -> None:
        if self._table.get(self._key) is self:
            self._table.pop(self._key, None)


class ThreadLeads:
    """A table of makers by key. Thread-safe."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: dict[str, ThreadLead] = {}

    def lead(self, key: str) -> ThreadLead | None:
        """Make this thread the maker of a key until it releases; None where another thread is the maker."""
        mine = ThreadLead(self._table, key)
        found = self._table.setdefault(key, mine)
        if found.process != mine.process:
            found = self._table[key] = mine
        return mine if found is mine else None

    def wait(self, key: str, what: str) -> bool:
        """Wait until no thread makes a key; False where the wait would never end, or was given up."""
        maker = self._table.get(key)
        return maker is None or maker.wait(what)

    @contextmanager
    def turn(self, key: str, what: str, before_waiting: Callable[[], object]) -> Iterator[None]:
        """Lead a key within the block; a thread that gave up waiting enters beside the maker.

        `before_waiting` is called before the thread waits: it releases the leads that others wait for.
        """
        mine = self.lead(key)
        if mine is None:
            before_waiting()
        while mine is None and self.wait(key, what):
            mine = self.lead(key)
        try:
            yield
        finally:
            if mine is not None:
                mine.release()
