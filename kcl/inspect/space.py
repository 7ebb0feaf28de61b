"""Keeps the entries within the bound on space, and chooses the kernels that are removed for that.

A kernel is removed as a whole: its code, its programs and its base rows. The kernels that were used longest ago are
removed first, until a tenth of the bound is free. If another process reads an entry during its removal, it misses, and
makes the entry again.

Pinned kernels stay, however small the bound is. A pin is the name of a kernel, a shell pattern of names, or the digest
of an entry, of which twelve digits are enough. The pins are one small file.

At the end of a process with a miss only the sizes of files are added up. The headers of all entries are read only if
kernels must be removed.
"""

from __future__ import annotations

import fnmatch
import json
import sqlite3
from collections.abc import Iterable
from contextlib import suppress

from kcl.base import events, settings
from kcl.cache import places
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault
from kcl.inspect import inventory, purge
from kcl.inspect.history import journal
from kcl.inspect.inventory import Faults, ListedEntry

# The share of the bound that stays in use. With less room the next entry would exceed the bound again.
_ROOM = 0.9
_PINS = address("0" * 64, label="pins")
# The digits of a digest that `kcl ls` prints. Fewer may name several entries.
_DIGITS = 12


def measure(site: str | None = None) -> int:
    """Return the bytes that the entries of all layers take on disk, here or in a `site`; reads no entry."""
    return sum(
        inventory.measure_files(store).bytes
        for layer in settings.LAYERS
        for store in inventory.find_stores(layer, [], site)
    )


def choose(bound: int, site: str | None = None) -> tuple[purge.Removal, int]:
    """Choose entries to remove so that the others take at most `bound` bytes; 0 means no bound.

    They are chosen from the user's own stores, or from a `site` directory. Returns the removal, whose refusals are the
    entries that cannot be read, and the number of removed entries without their base rows, which no listing shows.
    """
    refusals: Faults = []
    listed = list(inventory.entries(all_rows=True, own=True, site=site, faults=refusals))
    size = measure(site)
    gone: list[ListedEntry] = []
    if 0 < bound < size:
        uses, pins = journal.read_uses(), read_pins()

        def find_last_use(kernel: list[ListedEntry]) -> float:
            return max(purge.find_last_use(part, uses) for part in kernel)

        for kernel in sorted(_group_kernels(listed), key=find_last_use):
            is_held = any(is_pinned(pins, part.kernel, part.digest) for part in kernel)
            if size > bound * _ROOM and not is_held:
                gone += kernel
                size -= sum(part.size for part in kernel)
    return purge.Removal(purge.collect_items(gone, listed), refusals), len(gone)


def _group_kernels(listed: Iterable[ListedEntry]) -> Iterable[list[ListedEntry]]:
    """Put the code of each kernel together with the programs that were built of it."""
    shown = [entry for entry in listed if entry.is_shown]
    return inventory.group(shown, lambda entry: (entry.kernel, entry.program)).values()


def keep_bound() -> None:
    """Remove the entries above the bound; raises nothing for a store that refuses."""
    with suppress(OSError, sqlite3.Error, CacheFault, ValueError):
        # There is a bound only on the bytes, since bounds on number and age would have the same effect.
        bound = settings.read().max_size
        if not 0 < bound < measure():
            return
        gone, entries = choose(bound)
        purge.remove(gone, "the bound on space (KCL_MAX_SIZE)")
        if entries:
            events.logger().info(
                "%d entries with %d bytes were removed: the bound is %d bytes, see KCL_MAX_SIZE",
                entries,
                gone.bytes,
                bound,
            )


def read_pins() -> list[str]:
    """Return the pins in their order; none if the file cannot be read."""
    with suppress(OSError, CacheFault, ValueError, TypeError):
        return [
            name for name in json.loads(_open_pins().get(_PINS) or b"[]") if isinstance(name, str)
        ]
    return []


def save_pins(names: Iterable[str]) -> None:
    """Save these pins as the only ones; raises `OSError` or `CacheFault`."""
    _open_pins().put(_PINS, json.dumps(sorted(set(names))).encode())


def is_pinned(names: Iterable[str], kernel: str, digest: str) -> bool:
    """Return True if one of the pins names this kernel, or the entry with this digest."""
    return any(
        (digest.startswith(name) and len(name) >= _DIGITS) or fnmatch.fnmatchcase(kernel, name)
        for name in names
    )


def _open_pins() -> Directory:
    return Directory(places.own(places.PINS))
