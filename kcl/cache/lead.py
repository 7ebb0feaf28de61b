"""Leads: if threads and processes miss one key at the same time, one makes the entry and the others wait.

    <kcl folder>/flight/<key digest>    locked (flock) by the process that makes the entry; its text is "<process> <host>"

A lead saves work; the results are right without it. After a wait a thread looks again, and makes the value itself if it
is still missing. A thread waits for the holder of a lead for a minute at most. It does not wait for a process that is
stopped, and only 20 seconds for one that the system does not know, such as one on another host or in a container. The
system releases the lock of a holder that dies, and one of the waiting processes takes its place. The file is removed
with the lock. If a holder dies while nobody waits, its file stays; the next helper removes it after a day
(`kcl.drivers.pocl`).

Within a process one thread takes the lead for all its threads; the others wait in memory. Threads cannot wait in a
circle: a thread releases its leads before it waits, and a launch within a launch, as from a signal handler, a finaliser
or a recipe, waits for nobody.

The process that generates code also builds the program and leads for the next kernel, so that the other processes need
not import a code generator. Hence a thread releases the lead for code only once it has the lead for the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any

from kcl.base import process
from kcl.cache import places
from kcl.errors import CacheFault

if TYPE_CHECKING:
    from kcl.base.events import Event
    from kcl.cache.layer import Layer


class ProcessLeads:
    """The leads of this process by key, and the threads that are within a launch."""

    def __init__(self) -> None:
        self.leads: dict[str, KeyLead] = {}
        self.launching: set[int] = set()

    def after_fork(self) -> None:
        """Forget the parent's threads."""
        self.leads.clear()
        self.launching &= {get_ident()}


_state = process.own(ProcessLeads)


class Lead:
    """The leads of one thread in one launch, through all stages; the `with` block releases them.

    `events` are those of the look-ups so far. `parameters` are those of the recipe; `shown` writes a value for display.
    """

    __slots__ = ("_held", "_is_nested", "_kernel", "_shown", "events", "parameters")

    def __init__(
        self, kernel: str, parameters: Mapping[str, Any] = {}, shown: Callable[[Any], str] = repr
    ) -> None:
        self.events: list[Event] = []
        self.parameters = parameters
        self._kernel = kernel
        self._shown = shown
        self._held: list[KeyLead] = []
        self._is_nested = False

    def texts(self) -> dict[str, str]:
        """Return the parameters in readable form."""
        return {name: self._shown(value) for name, value in self.parameters.items()}

    def describe(self) -> str:
        """Return the kernel with its parameters, for display."""
        listed = ", ".join(f"{name}={text}" for name, text in self.texts().items())
        return f"{self._kernel}({listed})" if listed else self._kernel

    def take(self, layer: Layer, digest: str) -> None:
        """Take the lead for a digest, or wait for the thread or process that has it.

        The lead of an earlier stage is released as soon as this thread waits or has the new lead.
        """
        # Without a store others could not see the entry, so waiting is of no use.
        if not layer.stores:
            self.release()
            return
        path = os.path.join(places.own(places.FLIGHT), digest)
        mine = _claim(path)
        if mine is None:
            self._wait(path)
            return
        try:
            mine.lock(self._is_nested, self.release)
        except BaseException as error:
            # Released after any error, so that the threads that wait in memory go on.
            mine.release()
            if not isinstance(error, (OSError, CacheFault, ValueError)):
                raise
            self.release()
            layer.fault("use its directory", error)
            return
        self.release()
        self._held.append(mine)

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Let one thread of this process at a time into the block of a key. After a long wait it enters in any case."""
        mine = _claim(key)
        while mine is None and self._wait(key):
            mine = _claim(key)
        try:
            yield
        finally:
            if mine is not None:
                mine.release()

    def release(self) -> None:
        """Release all leads, so that the waiting threads and processes continue. A second release is no error."""
        while self._held:
            self._held.pop().release()

    def _wait(self, key: str) -> bool:
        """Wait until no thread of this process has the lead; return False if the wait was too long or not allowed."""
        self.release()
        lead = _state().leads.get(key)
        if lead is None:
            return True
        return not self._is_nested and lead.thread != get_ident() and lead.wait()

    def __enter__(self) -> Lead:
        launching, me = _state().launching, get_ident()
        self._is_nested = me in launching
        launching.add(me)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_nested:
            _state().launching.discard(get_ident())
        self.release()


class KeyLead:
    """One thread's lead for one key: other threads of the process wait in memory, other processes at a file lock."""

    __slots__ = ("_descriptor", "_key", "_process", "thread")

    def __init__(self, key: str) -> None:
        self._key = key
        self._process = os.getpid()
        self._descriptor = -1
        self.thread = get_ident()

    def lock(self, at_once: bool, before_waiting: Callable[[], object]) -> None:
        """Lock the key's file, or wait until its holder has released it.

        With `at_once` it does not wait. `before_waiting` is called before a wait. Raises the errors of the directory
        (`OSError`, `UnusableDirectory`).
        """
        from kcl.cache import locks

        self._descriptor = locks.hold(self._key, at_once, before_waiting)

    def wait(self) -> bool:
        """Wait until this lead is released. If that takes too long, drop it for all waiters and return False."""
        from kcl.cache import locks

        leads = _state().leads
        has_gone = locks.wait(
            lambda: leads.get(self._key) is not self, lambda: locks.LONGEST_SECONDS
        )
        if not has_gone:
            self._leave()
        return has_gone

    def release(self) -> None:
        """Release the lead, whether the entry was published or not. A forked child releases nothing."""
        if self._process != os.getpid():
            return
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            from kcl.cache import locks

            locks.remove(self._key, descriptor)
        self._leave()

    def _leave(self) -> None:
        leads = _state().leads
        if leads.get(self._key) is self:
            leads.pop(self._key, None)


def _claim(key: str) -> KeyLead | None:
    """Take a lead for this process, in one atomic step; return None if another thread has it."""
    mine = KeyLead(key)
    return mine if _state().leads.setdefault(key, mine) is mine else None
