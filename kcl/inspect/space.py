"""Space: the bound on the bytes of the stores. What was used longest ago goes first.

The bound is looked at as a process ends in which anything missed, and then once an hour at most: a warm run spends
nothing on it. Another process that reads what is being removed misses, and makes it anew.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress

from kcl import events, settings
from kcl.cache import places
from kcl.cache.stores.directory import Directory, publish
from kcl.errors import CacheFault
from kcl.inspect import inventory, removal
from kcl.inspect.history import journal
from kcl.namedtuple import NamedTuple

_HOUR = 3600.0
_ROOM = 0.9  # what is left of the bound: the next entry must not be one too many


class Choice(NamedTuple):
    """What goes so that the rest fits, how many bytes there were, and what cannot be removed."""

    items: list[removal.Item]
    rows: removal.Rows
    before: int
    refusals: list[removal.Refusal]

    @property
    def size(self) -> int:
        """The bytes that go."""
        return sum(item.size for item in self.items) + self.rows.size

    @property
    def entries(self) -> int:
        """The number of entries that go."""
        return len(self.items) + len(self.rows.addresses)


def used() -> int:
    """Return the bytes that the entries of both layers take on disk; reads no entry."""
    total = 0
    for layer in settings.LAYERS:
        for store in inventory.stores(layer, []):
            if isinstance(store, Directory):
                for _address, item in store.items():
                    with suppress(OSError):
                        total += item.stat(follow_symlinks=False).st_size
            else:
                with suppress(OSError):
                    total += os.path.getsize(store.location)
    return total


def chosen(limit: int) -> Choice:
    """Choose what goes so that entries take less than `limit` bytes; nothing where they do."""
    refusals: list[removal.Refusal] = []
    before = used()
    if before <= limit:
        return Choice([], removal.Rows((), 0), before, refusals)
    uses = journal.uses()
    listed = []
    for one in inventory.entries(all_rows=True):
        use = uses.get(one.digest[: journal.DIGITS])
        listed.append((max(one.modified, use.last if use else 0.0), one.size))
    listed.sort(reverse=True)
    kept, age = 0, 0.0
    for last, size in listed:
        kept += size
        if kept > limit * _ROOM:
            break
        age = last
    items, rows = removal.entries(list(settings.LAYERS), None, age or time.time(), refusals)
    return Choice(items, rows, before, refusals)


def remove(choice: Choice) -> None:
    """Remove what was chosen; what cannot be removed is added to its refusals."""
    for item in choice.items:
        try:
            removal.remove(item)
        except OSError as error:
            choice.refusals.append(removal.Refusal(item.cache, item.path, str(error)))
    if choice.rows.addresses:
        try:
            removal.remove_rows(choice.rows)
        except (OSError, sqlite3.Error, CacheFault) as error:
            choice.refusals.append(removal.Refusal(settings.GENERATOR, "rows", str(error)))


def keep_bound() -> None:
    """Remove what is above the bound, if nobody has looked for an hour; raises nothing for a store that refuses."""
    limit = settings.read().max_size
    with suppress(OSError, sqlite3.Error, CacheFault, ValueError):
        if not limit or not _is_due():
            return
        choice = chosen(limit)
        remove(choice)
        if choice.entries:
            words = "%d entries with %d bytes were removed: the bound is %d bytes, see KCL_MAX_SIZE"
            events.logger().info(words, choice.entries, choice.size, limit)


def _is_due() -> bool:
    """Tell whether the last look was long ago, and note this one."""
    path = places.own(places.SPACE)
    try:
        if 0.0 <= time.time() - os.stat(path).st_mtime < _HOUR:
            return False
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path)):
            return False  # nothing was stored
    publish(path, b"")
    return True
