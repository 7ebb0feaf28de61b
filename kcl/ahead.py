"""Programs made ahead: while one kernel is bound and launched, a second thread makes the programs of the next ones.

Which those are is what the last run of the driver asked for after the same first program (`kcl.history.orders`). Each
is made of an entry that is read and verified as in every look-up, and is taken only for the key that its entry holds:
an order that is old or wrong costs time, and nothing else. Few are made at first, and more as they are taken.

The thread holds nothing alive but while it makes a program, ends when there is nothing to make, and before the process
does. A process is forked between two of its steps only, so that no lock of the driver stays locked in the child.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

import pyopencl as cl

from kcl import building, events
from kcl.entry import Entry
from kcl.errors import CacheFault, DamagedEntry
from kcl.history import orders
from kcl.stores.base import digest_of

if TYPE_CHECKING:
    from kcl.layers import Layer
    from kcl.program import Slot

WINDOW = 24  # programs at most are made that nobody has asked for yet
FIRST = 4  # of them before it is seen that this run is like the last one
BATCH = 8  # are read one after the other, then built: in between the thread has to wait for the interpreter's lock
_FAULTS = (OSError, CacheFault, ValueError, KeyError, cl.Error)
_FORK_SECONDS = 1.0

_READ, _IN_WORK, _BUILT, _REFUSED = range(4)


class Made:
    """A program made of the binary of an entry; where it `is_built` nothing is left to be done."""

    __slots__ = ("_done", "_state", "address", "entry", "program")

    def __init__(self, place: str, entry: Entry, program: cl.Program) -> None:
        self.address = place
        self.entry = entry
        self.program = program
        self._state = _READ
        self._done = threading.Lock()  # held until it is built
        self._done.acquire()

    @property
    def is_built(self) -> bool:
        return self._state == _BUILT


class Ahead:
    """What is made ahead for a context of one device, beginning with the first program that was asked for."""

    def __init__(self, layer: Layer, context: cl.Context, first: Slot) -> None:
        self.layer = layer
        self._context = context
        self._device = first.device
        self._options = first.options
        self._process = os.getpid()
        self._order = orders.of(first.address, first.options.text)
        self._lock = threading.RLock()  # what is finalised meanwhile may launch in the same thread
        self._asked: set[str] = set()
        self._places: dict[str, int] | None = None  # of programs in the order; None before that was read
        self._wanted: dict[str, None] = {}  # what is left of it
        self._made: dict[str, Made] = {}
        self._foreseen = 0  # programs asked for that the order has
        self._strangers = 0  # programs asked for, one after the other, that the order does not have
        self._works = False

    def take(self, slot: Slot) -> Made | None:
        """Return the program of `slot` if it was made, and see that the next ones are. Thread-safe."""
        if os.getpid() != self._process or slot.options.text != self._options.text:
            return None  # a thread of the parent may hold the lock; and all are built with the same options
        with self._lock:
            made = self._pop(slot.address)
            waits = made is not None and made._state == _IN_WORK
            begins = not self._works and (self._places is None or (bool(self._wanted) and self._room() >= FIRST))
            self._works = self._works or begins
        if begins:
            self._begin()
        if made is None:
            return None
        if waits:
            made._done.acquire()
        # Whoever looks up what was refused finds out why.
        return made if made._state != _REFUSED and made.entry.key == slot.key else None

    def _pop(self, place: str) -> Made | None:
        """Note that a program is asked for, and take it out; forget what was to come long before it."""
        self._asked.add(place)
        self._order.note(place)
        made = self._made.pop(place, None)
        self._wanted.pop(place, None)
        places = self._places or {}
        number = places.get(place)
        if number is None:
            self._strangers += 1
        else:
            self._strangers = 0
            self._foreseen += 1
        if self._strangers > WINDOW:  # this run is not like the last one
            self._forget_before(len(places), places)
        elif number is not None:
            self._forget_before(number - BATCH, places)
        return made

    def _forget_before(self, number: int, places: dict[str, int]) -> None:
        for late in [place for place in self._made if places[place] < number]:
            self._made.pop(late, None)
        for late in list(itertools.takewhile(lambda place: places[place] < number, self._wanted)):
            self._wanted.pop(late, None)

    def _room(self) -> int:
        """Return how many may be made now."""
        return min(WINDOW, FIRST + 2 * self._foreseen) - len(self._made)

    def _begin(self) -> None:
        try:
            threading.Thread(target=_work, args=(weakref.ref(self),), name="kcl-ahead", daemon=False).start()
        except RuntimeError as error:  # there is no thread to be had, or the interpreter ends: it is not tried again
            events.logger().debug("no program is made ahead: %s", error)

    def _step(self) -> bool:
        """Make some programs; tell whether there are more to be made."""
        if self._places is None:
            listed = self._order.read()
            with self._lock:
                self._places = {place: number for number, place in enumerate(listed)}
                self._wanted.update((place, None) for place in listed if place not in self._asked)
        with self._lock:
            batch = list(itertools.islice(self._wanted, max(0, min(BATCH, self._room()))))
            goes_on = self._works = bool(batch) and _goes_on()
        for made in [self._read(place) for place in batch if _goes_on()]:
            if made is not None and _goes_on():
                self._build(made)
        return goes_on

    def _read(self, place: str) -> Made | None:
        """Read and verify an entry and make a program of it; None where a look-up would say why there is none."""
        with _in_step:
            made = None
            with suppress(*_FAULTS):
                blob = self.layer.memory.get(place)
                if blob is None and self.layer.disk is not None:
                    blob = self.layer.disk.get(place)
                if blob is not None:
                    entry = Entry.unpack(blob)
                    if entry.key.digest != digest_of(place):
                        raise DamagedEntry(f"the entry at {place} is that of another key")
                    made = Made(place, entry, building.of_binaries(self._context, [self._device], [entry]))
            with self._lock:
                if place not in self._wanted:
                    made = None  # asked for meanwhile, or not needed any more
                elif made is not None:
                    self._made[place] = made
                self._wanted.pop(place, None)
            return made

    def _build(self, made: Made) -> None:
        with _in_step:
            with self._lock:
                if self._made.get(made.address) is not made:
                    return
                made._state = _IN_WORK
            state = _REFUSED
            try:
                if building.built_silently(made.program, self._options):
                    state = _BUILT
            finally:
                made._state = state
                made._done.release()


def _work(found: weakref.ref[Ahead]) -> None:
    """Make programs as long as there are some to be made, and somebody may ask for them; after a fault never again."""
    try:
        goes_on = True
        while goes_on:
            ahead = found()
            goes_on = ahead is not None and ahead._step()
            with _in_step:
                del ahead  # maybe the last that holds programs and context
    except Exception as error:
        events.logger().debug("no more programs are made ahead: %r", error)


def _goes_on() -> bool:
    return threading.main_thread().is_alive()


# Held by a thread while it may be inside of the driver, and by whoever forks.
_in_step = threading.Lock()
_forks = threading.local()


def _before_fork() -> None:
    _forks.waited = _in_step.acquire(timeout=_FORK_SECONDS)


def _after_fork() -> None:
    if _forks.waited:
        _in_step.release()


def _in_child() -> None:
    global _in_step
    _in_step = threading.Lock()  # a thread that is not here may hold the other one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
