"""Leads: of the threads and processes that miss one key at once, one makes the entry and the others wait.

    <kcl folder>/flight/<key digest>    held (flock) by the process that makes the entry; its text is "<process> <host>"

A lead saves work and is never needed for a right answer. After a wait a thread looks again, and makes the value itself
if it is still missing. A thread waits while the holder holds the lead, for a minute at most. It does not wait for a
process that is stopped, and only 20 seconds for one that the system does not know: one of another host or container.
The system releases the lock of a holder that dies, and one of the waiting processes takes its place. The file is
removed with the lock, so a lock covers one key only. The file of a holder that died alone stays, and the next helper
sweeps it after a day (`kcl.drivers.pocl`).

Within a process one thread takes the lead for all its threads; the others wait in memory. No circle of waiting threads
can exist. A thread releases its leads before it waits. A launch within a launch, as from a signal handler, a finaliser
or a recipe, waits for nobody.

The process that generates code builds the program too, and has the lead for the next kernel: so the other processes
import no code generator. Hence a thread releases the lead for code only when it has the lead for the program.
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
    from kcl.cache.layer import Layer


class ProcessLeads:
    """The leads of this process by key, and the threads within a launch."""

    def __init__(self) -> None:
        self.leads: dict[str, KeyLead] = {}
        self.launching: set[int] = set()

    def after_fork(self) -> None:
        """Forget the parent's threads."""
        self.leads.clear()
        self.launching &= {get_ident()}


_state = process.own(ProcessLeads)


class Lead:
    """The leads of a thread for one launch, through all stages; they end with the `with` block. For one thread.

    `parameters` are those of the recipe; `shown` writes their values.
    """

    __slots__ = ("_held", "_is_nested", "_kernel", "_shown", "parameters")

    def __init__(
        self, kernel: str, parameters: Mapping[str, Any] = {}, shown: Callable[[Any], str] = repr
    ) -> None:
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

        This thread releases the lead of an earlier stage as soon as it waits, or has the new lead.
        """
        # Without a store the others would not see the entry.
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
            # Whatever fails, the threads that wait in memory go on.
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
        """Let one thread of this process at a time into the block of a key; after a wait in vain enter beside it."""
        mine = _claim(key)
        while mine is None and self._wait(key):
            mine = _claim(key)
        try:
            yield
        finally:
            if mine is not None:
                mine.release()

    def release(self) -> None:
        """Let the others continue. A second release is no error."""
        while self._held:
            self._held.pop().release()

    def _wait(self, key: str) -> bool:
        """Wait until no thread of this process has the lead; return False if the wait is over without that."""
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
    """The lead of one thread for a key: other threads of its process wait in memory, and other processes at a lock."""

    __slots__ = ("_descriptor", "_key", "_process", "thread")

    def __init__(self, key: str) -> None:
        self._key = key
        self._process = os.getpid()
        self._descriptor = -1
        self.thread = get_ident()

    def lock(self, at_once: bool, before_waiting: Callable[[], object]) -> None:
        """Lock the key's file, or wait until its holder has released it.

        With `at_once` nobody is waited for. `before_waiting` is called before the wait. Raises the errors of the
        directory (`OSError`, `UnusableDirectory`).
        """
        from kcl.cache import locks

        self._descriptor = locks.hold(self._key, at_once, before_waiting)

    def wait(self) -> bool:
        """Wait until this lead is over; if that takes too long return False, and nobody else waits for this thread."""
        from kcl.cache import locks

        leads = _state().leads
        has_gone = locks.wait(
            lambda: leads.get(self._key) is not self, lambda: locks.LONGEST_SECONDS
        )
        if not has_gone:
            self._leave()
        return has_gone

    def release(self) -> None:
        """Let the others continue: the entry is published, or will not be; a forked child releases nothing."""
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
    """Take the lead for all threads of this process, in one step of the interpreter; None if another thread has it."""
    mine = KeyLead(key)
    return mine if _state().leads.setdefault(key, mine) is mine else None
