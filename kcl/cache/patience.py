"""Patience: how long a thread waits for its maker, the thread or process that makes the value it needs.

A thread waits for a maker that works. It stops waiting for a stopped maker after a tenth of a second, for a maker that
uses no processor time after a second, and for every maker after a minute. These bounds hold for the whole process: the
time of a wait without a result is subtracted from the next waits. A thread waits again for such a maker once the maker
has worked in between. Waits are shown after two seconds. Waits for a file in use by other processes have bounds of
their own, and are longer on a busy machine (`kcl.cache.stores.busy`).

A compiler may serve one thread of a process at a time, and so does loopy. A thread that waits for its turn uses no
processor time. It counts as working while one of the threads that take turns with it works (`Turn`).
"""

from __future__ import annotations

import os
import time
from _thread import get_native_id
from threading import get_ident
from typing import NamedTuple

from kcl.base import events, process

STOPPED_SECONDS = 0.1  # a maker stopped for longer that then goes on costs one compilation too many
IDLE_SECONDS = 1.0
LONGEST_SECONDS = 60.0
SHOWN_SECONDS = 2.0


class Signs(NamedTuple):
    """The system's report on a maker: whether it is stopped, whether it runs, and the processor time it used.

    `spent` is empty where the system reports nothing, as for a process of another namespace.
    """

    is_stopped: bool = False
    runs: bool = False
    spent: tuple[bytes, ...] = ()


def signs_of(maker: str) -> Signs:
    """Return the signs of a process, by its id; or of a thread, by ``self/task/`` and its native id."""
    try:
        with open(f"/proc/{maker}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
        # The times are those of the process and of its children that ended.
        return Signs(fields[0] in (b"T", b"t"), fields[0] == b"R", tuple(fields[11:15]))
    except (OSError, IndexError):
        return Signs()


def crowd() -> float:
    """Return the number of running or ready threads per core of this machine: at least 1, and 1 if it is unknown."""
    try:
        with open("/proc/loadavg", "rb") as stream:
            running = int(stream.read().split()[3].partition(b"/")[0])
    except (OSError, IndexError, ValueError):
        return 1.0
    return max(1.0, running / (os.cpu_count() or 1))


class State:
    """The seconds of waits without a result, by kind, the makers given up by this process, and each thread's waits.

    `turns` holds the threads that take turns, by the thing they share: the system's number of each thread by Python's.
    """

    def __init__(self) -> None:
        self.turns: dict[str, dict[int, int]] = {}
        self.in_vain: dict[str, float] = {}
        self.left_behind: dict[str, Signs] = {}
        self.waits: dict[int, int] = {}

    def after_fork(self) -> None:
        """Forget the waits and turns of the parent's threads; the child's thread has a new number."""
        self.waits.clear()
        me = get_ident()
        for threads in self.turns.values():
            mine = me in threads
            threads.clear()
            threads.update({me: get_native_id()} if mine else {})


_state = process.own(State)


class Patience:
    """The patience of one wait, from the `with` statement on; `what` names the kernel in messages. For one thread.

    Waits of one kind share their bounds.
    """

    __slots__ = ("_asked", "_begin", "_idle", "_kind", "_maker", "_shown", "_spent", "_what", "gave_up")

    def __init__(self, what: str, kind: str = "makers") -> None:
        self._what, self._kind = what, kind
        self._begin = self._asked = time.monotonic()
        self._idle = 0.0  # seconds without a sign of work since then
        self._shown = SHOWN_SECONDS
        self._maker = ""
        self._spent: tuple[bytes, ...] = ()
        self.gave_up = False

    def is_over(self, maker: str, signs: Signs, said: str = "", crowd: float = 1.0) -> bool:
        """Tell whether to go on without a maker with these signs; `said` names the maker in messages.

        `crowd` is the number of threads per core, for a maker whose signs lack the processor time: the time since the
        last call counts by the share that the maker may have had.
        """
        now, state = time.monotonic(), _state()
        self._show(now, said or f"process {maker}")
        self._idle += (now - self._asked) / crowd
        self._asked = now
        if maker != self._maker:
            self._maker, self._idle = maker, 0.0
        if signs.spent and (signs.runs or signs.spent != self._spent):
            self._spent, self._idle = signs.spent, 0.0
        before = state.left_behind.get(maker)
        if before is not None and before == signs:
            self.gave_up = True
            return True
        in_vain = state.in_vain.get(self._kind, 0.0)
        bound = STOPPED_SECONDS if signs.is_stopped else max(STOPPED_SECONDS, IDLE_SECONDS - in_vain)
        self.gave_up = self._idle > bound or now - self._begin > max(0.0, LONGEST_SECONDS - in_vain)
        if self.gave_up:
            state.in_vain[self._kind] = in_vain + now - self._begin
            if signs.spent:
                state.left_behind[maker] = signs
        return self.gave_up

    def begin_again(self) -> None:
        """Begin to wait for another maker, which is still unknown."""
        self._begin = self._asked = time.monotonic()
        self._maker, self._idle, self.gave_up = "", 0.0, False

    def _show(self, now: float, said: str) -> None:
        waited = now - self._begin
        if waited > self._shown:
            events.logger().warning("waiting %.0f s for %s: %s", waited, said, self._what)
            self._shown = 2 * waited

    def __enter__(self) -> Patience:
        waits = _state().waits
        waits[get_ident()] = waits.get(get_ident(), 0) + 1
        return self

    def __exit__(self, *_: object) -> None:
        waits = _state().waits
        left = waits.pop(get_ident(), 1) - 1
        if left:
            waits[get_ident()] = left


def forgive(kind: str) -> None:
    """Forget the waits of a kind without a result: the maker works again."""
    _state().in_vain.pop(kind, None)
    _state().left_behind.pop(kind, None)


def waits(thread: int) -> bool:
    """Tell whether a thread is in a wait, bounded like every wait; `thread` is Python's number of it."""
    return thread in _state().waits


class Turn:
    """A block in which this thread uses, or waits for, a tool that may serve one thread of the process at a time."""

    __slots__ = ("_is_first", "_threads")

    def __init__(self, what: str) -> None:
        self._threads = _state().turns.setdefault(what, {})

    def __enter__(self) -> None:
        me = get_ident()
        self._is_first = me not in self._threads  # else a block within a block, or a signal handler within one
        if self._is_first:
            self._threads[me] = get_native_id()

    def __exit__(self, *_error: object) -> None:
        if self._is_first:
            self._threads.pop(get_ident(), None)


def signs_of_thread(thread: int, native: int) -> Signs:
    """Return the signs of a thread of this process, by Python's number of it and the system's.

    A waiting thread counts as running. The signs of a thread that takes turns are those of all threads that take turns.
    Where the system reports nothing on threads the process stands for the thread.
    """
    if waits(thread):
        return Signs(runs=True, spent=(b"waits",))
    if not os.path.isdir("/proc/self/task"):
        return Signs(spent=(b"%d" % (100 * time.process_time()),))
    natives = [native]
    for threads in list(_state().turns.values()):
        if thread in threads:
            natives += [other for other in list(threads.values()) if other not in natives]
    found = [signs_of(f"self/task/{one}") for one in natives]
    spent = tuple([part for signs in found for part in signs.spent])
    return Signs(all(signs.is_stopped for signs in found), any(signs.runs for signs in found), spent)
