"""Programs made ahead: while one kernel is bound and launched, a second thread builds the programs of the next ones.

They are the programs that the last run of the driver asked for after the same first program
(`kcl.drivers.pocl.program_order`).
Each is made of an entry that is read and verified as in every look-up, and is taken only for the key in its entry. So
an order that is old or wrong costs only time and memory. Few programs are made at first, and more as they are taken.
The thread that asks for a program also reads the entries of the next programs: the second thread only builds, in the
driver. Two threads that both run Python take turns, and wait for each other at every turn.

The two threads share dictionaries and no lock; each change to a dictionary is one step of the interpreter. So a signal
handler or a finaliser in the same thread may launch at any point. A thread that forks waits for at most a second until
the second thread is between two programs, since the child would inherit the driver's locks.
"""

from __future__ import annotations

import collections
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl.base import events, process
from kcl.build import compiler
from kcl.cache.entry import Entry
from kcl.cache.stores.base import digest_of
from kcl.drivers.pocl import program_order
from kcl.drivers.pocl.repair import repair

if TYPE_CHECKING:
    from kcl.build.options import BuildOptions
    from kcl.build.program_key import ProgramSlot
    from kcl.cache.layer import Layer

WINDOW = 24  # programs at most are made that no thread has asked for yet
FIRST = 4  # of them before it is seen that this run is like the last one
BATCH = 16  # are made at once, so that the second thread need not begin too often
BATCH_SECONDS = 0.02  # then the batch ends: the launch of a program that is ready waits during it
PASSED = 8  # places in the order that a run may be behind, and still ask for a program that was made
_PATIENCE = 5.0  # seconds, for a program that the second thread builds
_FORK_SECONDS = 1.0


class PrebuiltProgram:
    """A program made of the binary of an entry. One thread builds it; where it `is_built` the program is complete."""

    __slots__ = ("_claim", "_done", "entry", "is_built", "program")

    def __init__(self, entry: Entry, program: cl.Program) -> None:
        self.entry = entry
        self.program = program
        self.is_built = False
        self._claim = threading.Lock()  # taken by the thread that builds it
        self._done = threading.Lock()
        self._done.acquire()

    def complete(self, options: BuildOptions) -> None:
        """Build the program, unless another thread has claimed it."""
        if self._claim.acquire(blocking=False):
            try:
                self.is_built = compiler.built_silently(self.program, options)
            finally:
                self._done.release()

    def is_usable(self) -> bool:
        """Tell whether the program is built or the caller is to build it; wait while the other thread builds it."""
        return self._claim.acquire(blocking=False) or (self._done.acquire(timeout=_PATIENCE) and self.is_built)


class Prebuilder:
    """The programs made ahead for a context of one device, beginning with the first program that was asked for."""

    def __init__(self, layer: Layer, context: cl.Context, first: ProgramSlot, waits: Callable[[str], bool]) -> None:
        self.layer = layer
        self._waits = waits  # digest -> whether a helper still has to complete the entry: no program is made of it
        self._context = context
        self._device = first.device
        self._options = first.options
        self._process = os.getpid()
        self._order = program_order.of(first.address, first.options.text)
        self._places = {place: number for number, place in enumerate(self._order.read())}
        self._wanted = dict.fromkeys(self._places)  # the rest of the order
        self._made: dict[str, PrebuiltProgram] = {}
        self._unbuilt: collections.deque[str] = collections.deque()
        self._is_like = False  # whether this run has asked for a program that was made ahead
        self._strangers = 0  # programs asked for, one after the other, that the order does not have
        # No thread waits for these locks: a thread that finds one taken leaves the work to its holder. The second
        # thread gives back the lock of its work, which another thread took for it.
        self._filling = threading.Lock()
        self._building = threading.Lock()

    def take(self, slot: ProgramSlot) -> PrebuiltProgram | None:
        """Return the program of `slot` if it was made, and make sure that the next ones are made. Thread-safe."""
        if os.getpid() != self._process or slot.options.text != self._options.text:
            return None  # the thread belongs to the parent; and all programs are built with the same options
        made = self._pop(slot.address)
        self._fill()
        # A look-up of the refused entry finds the reason.
        return made if made is not None and made.entry.key == slot.key and made.is_usable() else None

    def _pop(self, place: str) -> PrebuiltProgram | None:
        """Note that a program is asked for, and take it out; forget the programs that stand long before it."""
        self._order.note(place)
        self._wanted.pop(place, None)  # first: a program that is no longer wanted is not added to those that were made
        made = self._made.pop(place, None)
        self._is_like |= made is not None
        number = self._places.get(place)
        if number is not None:
            self._strangers = 0
            self._forget_before(number - PASSED)
        else:
            self._strangers += 1
            if self._strangers > WINDOW:  # this run is not like the last one
                self._forget_before(program_order.LONGEST)
        return made

    def _forget_before(self, number: int) -> None:
        for late in [place for place in list(self._made) if self._places[place] < number]:
            self._made.pop(late, None)
        for place in list(self._wanted):
            if self._places[place] >= number:
                break
            self._wanted.pop(place, None)

    def _fill(self) -> None:
        """Make the next programs, unless enough are made or another thread makes them."""
        number, most = (BATCH, WINDOW) if self._is_like else (FIRST, FIRST)
        if self._wanted and len(self._made) + number <= most and self._filling.acquire(blocking=False):
            try:
                end = time.monotonic() + BATCH_SECONDS
                for place in list(self._wanted)[:number]:
                    if place in self._wanted and _goes_on():
                        self._make(place)
                    if time.monotonic() > end:
                        break
            finally:
                self._filling.release()

    def _make(self, place: str) -> None:
        """Read and verify an entry and have a program made of it; a later look-up says why that failed."""
        with suppress(Exception):
            entry = None if self._waits(digest_of(place)) else self.layer.read(place)
            if entry is not None:
                repair(entry)
                self._made[place] = PrebuiltProgram(entry, compiler.of_binaries(self._context, [self._device], [entry]))
                self._unbuilt.append(place)
        if self._wanted.pop(place, self) is self:  # asked for in between, or not needed any more
            self._made.pop(place, None)
        if self._unbuilt and self._building.acquire(blocking=False):
            self._begin()

    def _begin(self) -> None:
        # The interpreter must not end before the thread: the driver would return into an interpreter that is gone.
        try:
            threading.Thread(target=_work, args=(weakref.ref(self),), name="kcl-ahead", daemon=False).start()
        except RuntimeError as error:  # no thread can be started, or the interpreter ends
            self.give_up(error)

    def give_up(self, error: Exception) -> None:
        """Make no more programs: the lock for building stays taken."""
        self._wanted.clear()
        events.logger().debug("no more programs are made ahead: %r", error)

    def step(self) -> bool:
        """Build a program, in the second thread; tell whether there may be more to be built."""
        if not self._unbuilt or not _goes_on():
            self._building.release()
            # This thread makes the programs that were asked for in between.
            return bool(self._unbuilt) and _goes_on() and self._building.acquire(blocking=False)
        with _Step():
            made = self._made.get(self._unbuilt.popleft())
            if made is not None:
                made.complete(self._options)
        return True


def _work(found: weakref.ref[Prebuilder]) -> None:
    """Build programs as long as some are left and their context lives; build none after a fault."""
    try:
        while _step(found):
            pass
    except Exception as error:
        ahead = found()
        if ahead is not None:
            ahead.give_up(error)


def _step(found: weakref.ref[Prebuilder]) -> bool:
    ahead = found()
    try:
        return ahead is not None and ahead.step()
    finally:
        with _Step():
            ahead = None  # maybe the last reference to programs and context


def _goes_on() -> bool:
    return threading.main_thread().is_alive()


class State:
    """The lock of the second thread's work inside the driver. A thread that forks takes it first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forks = threading.local()  # `held`: for each fork that a thread is about to do, whether it has the lock

    def before_fork(self) -> None:
        """Wait for at most a second until the second thread is between two programs."""
        held = self._held()
        held.append(False)
        held[-1] = self.lock.acquire(timeout=_FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Let the second thread go on."""
        held = self._held()
        if held and held.pop():
            self.lock.release()

    def after_fork(self) -> None:
        """Forget the holder of the lock: the other thread does not exist in the child."""
        self.lock = threading.Lock()
        self._held().clear()

    def _held(self) -> list[bool]:
        held: list[bool] = self.forks.__dict__.setdefault("held", [])
        return held


_state = process.shared(State)


class _Step:
    """A step of the second thread inside the driver."""

    def __enter__(self) -> None:
        if not _state().lock.acquire(timeout=2 * _FORK_SECONDS):
            raise TimeoutError("a process that was to be forked holds the lock")

    def __exit__(self, *_unused: Any) -> None:
        _state().lock.release()
