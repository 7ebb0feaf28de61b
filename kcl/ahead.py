"""Programs made ahead: while one kernel is bound and launched, a second thread makes the programs of the next ones.

Which those are is what the last run of the driver asked for after the same first program (`kcl.history.orders`). They
are made of entries that are read and verified as in every look-up, and one is taken only for the key that its entry
holds: an order that is old or wrong costs time, and nothing else. So does a program that nobody asks for, of which no
more than `WINDOW` are made. To verify, to decompress and to build takes no interpreter's lock.
"""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pyopencl as cl

from kcl import building, events
from kcl.entry import Entry
from kcl.errors import CacheFault
from kcl.history import orders

if TYPE_CHECKING:
    from kcl.layers import Layer
    from kcl.program import Slot

WINDOW = 24  # programs are made that nobody has asked for yet
BATCH = 8  # are read one after the other, then built: in between the thread has to wait for the interpreter's lock
_FAULTS = (OSError, CacheFault, ValueError, KeyError, cl.Error)

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
        self._lock = threading.Lock()
        self._is_read = False  # the order
        self._wanted: dict[str, None] = {}  # what is left of it
        self._made: dict[str, Made] = {}
        self._strangers = 0  # programs asked for, one after the other, that the order does not have
        self._works = False

    def take(self, slot: Slot) -> Made | None:
        """Return the program of `slot` if it was made, and see that the next ones are. Thread-safe."""
        if os.getpid() != self._process or slot.options.text != self._options.text:
            return None  # a thread of the parent may hold the lock; and all are built with the same options
        with self._lock:
            made, waits = self._asked(slot.address)
            begins = not self._works and self._has_room()
            self._works = self._works or begins
        if begins:
            self._begin()
        if made is None:
            return None
        if waits:
            made._done.acquire()
        # Whoever looks up what was refused finds out why.
        return made if made._state != _REFUSED and made.entry.key == slot.key else None

    def _asked(self, place: str) -> tuple[Made | None, bool]:
        """Take out a program; tell whether it is being built."""
        self._order.asked[place] = None
        made = self._made.pop(place, None)
        known = made is not None or place in self._wanted
        self._wanted.pop(place, None)
        self._strangers = 0 if known else self._strangers + 1
        if self._strangers > WINDOW:  # this run is not like the last one
            self._wanted.clear()
            self._made.clear()
        return made, made is not None and made._state == _IN_WORK

    def _has_room(self) -> bool:
        return not self._is_read or (bool(self._wanted) and len(self._made) <= WINDOW // 2)

    def _begin(self) -> None:
        try:
            threading.Thread(target=self._work, name="kcl-ahead").start()
        except RuntimeError as error:  # there is no thread to be had, or the interpreter ends: it is not tried again
            events.logger().debug("no program is made ahead: %s", error)

    def _work(self) -> None:
        """Make programs until there are enough, or the main thread has ended; after a fault never again."""
        try:
            if not self._is_read:
                listed = self._order.read()
                with self._lock:
                    self._wanted.update((place, None) for place in listed if place not in self._order.asked)
                    self._is_read = True
            while batch := self._batch():
                for made in [self._read(place) for place in batch]:
                    if made is not None and self._is_to_be_built(made):
                        self._build(made)
        except Exception as error:
            events.logger().debug("no more programs are made ahead: %r", error)

    def _batch(self) -> list[str]:
        """Return what is to be made now; where that is nothing the thread ends."""
        with self._lock:
            room = min(BATCH, WINDOW - len(self._made)) if threading.main_thread().is_alive() else 0
            batch = list(itertools.islice(self._wanted, max(room, 0)))
            self._works = bool(batch)
            return batch

    def _read(self, place: str) -> Made | None:
        """Read and verify an entry and make a program of it; None where a look-up would say why there is none."""
        made = None
        with suppress(*_FAULTS):
            blob = self.layer.disk.get(place) if self.layer.disk is not None else None
            if blob is not None:
                entry = Entry.unpack(blob)
                made = Made(place, entry, building.of_binaries(self._context, [self._device], [entry]))
        with self._lock:
            if place not in self._wanted:
                return None  # asked for meanwhile
            del self._wanted[place]
            if made is not None:
                self._made[place] = made
        return made

    def _is_to_be_built(self, made: Made) -> bool:
        """Tell whether nobody was faster, and the process goes on."""
        with self._lock:
            if self._made.get(made.address) is not made or not threading.main_thread().is_alive():
                return False
            made._state = _IN_WORK
            return True

    def _build(self, made: Made) -> None:
        state = _REFUSED
        try:
            if building.built_silently(made.program, self._options):
                state = _BUILT
        finally:
            made._state = state
            made._done.release()
