"""Space: the bounds on the stores, and the choice of the kernels that go where the stores exceed them.

A kernel goes as a whole: its code, its programs and the rows that lead to them. The kernels that were used longest ago
go first, until a tenth of the bound is free; pinned ones stay. Another process that reads an entry during its removal
misses, and makes the entry again.

Measuring reads the header of every entry. So a process that ends asks `kcl.cache.growth` whether the bound may have
been passed, and measures only then, or once a week.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from kcl.base import events, process, settings
from kcl.cache import growth
from kcl.errors import CacheFault
from kcl.inspect import inventory, pins, purge, purge_items, tally
from kcl.inspect.history import journal
from kcl.inspect.history.journal import EntryUse
from kcl.inspect.inventory import ListedEntry

ENTRIES = 100_000  # of both layers: listing more takes seconds
_WEEK = 7 * 86400.0
_ROOM = 0.9  # the share of a bound that stays in use: the next entry must not exceed it
_AT_ONCE = 0.1  # of all kernels: the age removes at most this share at a time, so that a wrong clock empties nothing
_HOUR = 3600.0
_PATIENCE = 10.0  # seconds


class Limits(NamedTuple):
    """The bounds: bytes, number of entries, and seconds since the last use; 0 means no bound."""

    size: int
    entries: int = ENTRIES
    age: float = 0.0

    def hold(self, size: int, entries: int, share: float = 1.0) -> bool:
        """Tell whether a number of bytes and of entries is within a share of the bounds."""
        return not (0 < self.size * share < size or 0 < self.entries * share < entries)


class StoredKernel(NamedTuple):
    """The code of a kernel and the programs of that code, with the time of the last use."""

    parts: tuple[ListedEntry, ...]
    last: float
    pinned: bool

    @property
    def size(self) -> int:
        """The size of the kernel in bytes."""
        return sum(part.size for part in self.parts)


class Choice(NamedTuple):
    """The entries that go so that the rest fits, the faults of unreadable ones, and the bytes before.

    `entries` is the number of the entries that go and that a listing shows. The rows that lead to them go with them.
    """

    gone: purge.Removal
    entries: int
    before: int


class State:
    """The state of measuring: whether a thread of this process measures now."""

    def __init__(self) -> None:
        self.busy = threading.Lock()

    def after_fork(self) -> None:
        self.busy = threading.Lock()  # the thread that held it does not exist in a forked child


_state = process.own(State)


def limits() -> Limits:
    """Return the bounds that the settings name."""
    chosen = settings.read()
    return Limits(chosen.max_size, ENTRIES, chosen.max_age)


def used() -> int:
    """Return the bytes that the entries of all layers take on disk; reads no entry."""
    return sum(tally.files(store).bytes for layer in settings.LAYERS for store in inventory.stores(layer, []))


def chosen(bounds: Limits, now: float | None = None) -> Choice:
    """Choose the entries that go so that the others keep within the bounds; empty if all do."""
    now = time.time() if now is None else now
    faults: list[inventory.Fault] = []
    listed = list(inventory.entries(all_rows=True, faults=faults))
    kernels = wholes([one for one in listed if one.kind not in inventory.HIDDEN])
    before = size = used()
    count = sum(len(one.parts) for one in kernels)
    is_above, most_old = not bounds.hold(size, count), max(1, int(len(kernels) * _AT_ONCE))
    parts: list[ListedEntry] = []
    for number, one in enumerate(sorted((one for one in kernels if not one.pinned), key=lambda one: one.last)):
        is_old = 0 < bounds.age < now - one.last and number < most_old
        if not is_old and (not is_above or bounds.hold(size, count, _ROOM)):
            break
        parts += one.parts
        size, count = size - one.size, count - len(one.parts)
    gone = [*parts, *(_leading_nowhere(listed, parts, now) if parts else [])]
    refusals = [purge_items.Refusal(*fault) for fault in faults]
    return Choice(purge.Removal(*purge_items.of_entries(gone), refusals, []), len(parts), before)


def wholes(listed: Iterable[ListedEntry]) -> list[StoredKernel]:
    """Put the code of each kernel together with the programs that were built of it."""
    uses, pinned = journal.uses(), pins.read()
    parts: dict[tuple[str, object], list[ListedEntry]] = {}
    for one in listed:  # an earlier kcl did not say which OpenCL C: two of one length go together, to no harm
        program = one.metadata.get("program") or one.sizes.get("source.cl", 0)
        parts.setdefault((one.kernel, program), []).append(one)
    return [_whole(held, uses, pinned) for held in parts.values()]


def keep_bound() -> None:
    """Remove the entries above the bounds, if these may have been passed; raises nothing for a store that refuses.

    Waits for another thread that does the same, so that the work does not end with the process.
    """
    growth.write()
    if not _state().busy.acquire(timeout=_PATIENCE):
        return
    try:
        with suppress(OSError, sqlite3.Error, CacheFault, ValueError):
            _keep(limits(), time.time())
    finally:
        _state().busy.release()


def _keep(bounds: Limits, now: float) -> None:
    if not (bounds.size or bounds.age) or not _is_due(bounds, now):
        return
    choice = chosen(bounds, now)
    purge.take_away(choice.gone)
    size = used()
    growth.measured(now, min(size, bounds.size or size))  # a removal that failed is not tried again soon
    if choice.entries:
        words = "%d entries with %d bytes were removed: the bound is %d bytes, see KCL_MAX_SIZE"
        events.logger().info(words, choice.entries, choice.gone.bytes, bounds.size)


def keep_soon() -> None:
    """Keep the bounds in a separate thread; the caller does not wait for it."""
    threading.Thread(target=keep_bound, name="kcl-space", daemon=True).start()


def _is_due(bounds: Limits, now: float) -> bool:
    found = growth.estimate()
    if found is None or not 0.0 <= now - found.measured < _WEEK:
        return True
    return bool(bounds.size) and found.size > bounds.size


def _whole(held: list[ListedEntry], uses: Mapping[str, EntryUse], pinned: list[str]) -> StoredKernel:
    last = max(max(one.modified, journal.use(uses, one.digest).last) for one in held)
    return StoredKernel(tuple(held), last, any(pins.hold(pinned, one.kernel, one.digest) for one in held))


def _leading_nowhere(listed: Iterable[ListedEntry], gone: Iterable[ListedEntry], now: float) -> list[ListedEntry]:
    """Return the rows that lead to code that goes, and the rows that have led to no code for an hour."""
    going = set(map(id, gone))
    code = [one for one in listed if one.kind == inventory.CODE]
    living = {digest for one in code if id(one) not in going for digest in inventory.led_by(one.key)}
    dead = {digest for one in code if id(one) in going for digest in inventory.led_by(one.key)}
    return [
        one
        for one in listed
        if one.kind in inventory.LEADING
        and (to := one.leads_to) not in living
        and (to in dead or now - one.modified > _HOUR)
    ]
