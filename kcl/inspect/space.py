"""Space: the bound on the stores, and the choice of the kernels that go where the stores exceed it.

A kernel goes as a whole: its code, its programs and the rows that lead to them. The kernels that were used longest ago
go first, until a tenth of the bound is free; pinned ones stay. Another process that reads an entry during its removal
misses, and makes the entry again.

A process that ends after a miss adds up the sizes of the files. Only a choice reads the header of every entry.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress

from kcl.base import events, settings
from kcl.errors import CacheFault
from kcl.inspect import inventory, pins, purge
from kcl.inspect.history import journal
from kcl.inspect.inventory import ListedEntry, Refusal

_ROOM = 0.9  # the share of the bound that stays in use: the next entry must not exceed it


def used() -> int:
    """Return the bytes that the entries of all layers take on disk; reads no entry."""
    return sum(
        inventory.measure_files(store).bytes for layer in settings.LAYERS for store in inventory.stores(layer, [])
    )


def chosen(bound: int) -> tuple[purge.Removal, int]:
    """Choose the entries that go so that the others take at most `bound` bytes; empty if all do, or with 0.

    Return the removal, with the faults of unreadable entries, and the number of the entries that go and that a listing
    shows: the rows that lead to them go with them.
    """
    refusals: list[Refusal] = []
    listed = list(inventory.entries(all_rows=True, faults=refusals, own=True))
    size = used()
    gone: list[ListedEntry] = []
    if 0 < bound < size:
        uses, pinned = journal.uses(), pins.read()
        for kernel in sorted(_kernels(listed), key=lambda one: max(purge.last_use(part, uses) for part in one)):
            if size > bound * _ROOM and not any(pins.hold(pinned, part.kernel, part.digest) for part in kernel):
                gone += kernel
                size -= sum(part.size for part in kernel)
    return purge.Removal(purge.of_entries(gone, listed), refusals), len(gone)


def _kernels(listed: Iterable[ListedEntry]) -> Iterable[list[ListedEntry]]:
    """Put the code of each kernel together with the programs that were built of it."""
    parts: dict[tuple[str, object], list[ListedEntry]] = {}
    for one in listed:
        if one.kind not in inventory.HIDDEN:
            parts.setdefault((one.kernel, one.metadata.get("program")), []).append(one)
    return parts.values()


def keep_bound() -> None:
    """Remove the entries above the bound; raises nothing for a store that refuses."""
    with suppress(OSError, sqlite3.Error, CacheFault, ValueError):
        bound = settings.read().max_size
        if not 0 < bound < used():
            return
        gone, entries = chosen(bound)
        purge.remove(gone, "the bound on space (KCL_MAX_SIZE)")
        if entries:
            words = "%d entries with %d bytes were removed: the bound is %d bytes, see KCL_MAX_SIZE"
            events.logger().info(words, entries, gone.bytes, bound)
