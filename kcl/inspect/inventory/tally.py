"""How much lies in each folder of a large store, kept in a file, since looking at ten thousand files takes long.

    {folder or database: [inode, time of its last change in ns, entries, bytes, oldest, newest]}

Entries are put in place by renaming, so a folder that was not changed holds what it held. The file is a summary that
can be made anew at any time; a wrong one would show a wrong size, and decides nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from kcl.base import settings
from kcl.cache import places
from kcl.cache.stores.base import Stat, address
from kcl.cache.stores.database import Database
from kcl.caches import contents
from kcl.caches.contents import Contents
from kcl.errors import CacheFault
from kcl.inspect import inventory
from kcl.inspect.inventory import listing

FEW = 256  # entries of a store that is looked at anew each time
_FAULTS = (OSError, sqlite3.Error, CacheFault, ValueError, TypeError, AttributeError)
# What the header of an entry with code has and no other, among so many bytes; inside of a text it would be escaped.
_CODE, _HEADER = b'"parts":[["source.cl",', 1 << 16
_ADDRESS = address("0" * 64, label="tally")


def of_layer(name: str) -> Contents:
    """Count a layer's entries, as a listing does, and all bytes: the rows and files of all Python versions."""
    stores = inventory.stores(name, [])
    if name == settings.BINARY:
        return contents.total(list(map(of, stores)))
    folder = places.dictionaries()
    names = os.listdir(folder) if stores else []
    mine = [os.path.join(folder, each) for each in names if each.startswith(places.DICTIONARY + places.GENERATED)]
    beside = contents.of([path for path in mine if not (path.endswith(places.DATABASE) or os.path.isdir(path))], "")
    return contents.total([beside, *map(of_code, stores)])


def of(store: inventory.Files) -> Contents:
    """Count the entries of a store; where none of its folders has changed, it is not asked. Raises nothing."""
    known, stamps = _load(), listing.stamps_of(store.location)
    found = {folder: known[folder] for folder, stamp in stamps.items() if known.get(folder, [])[:2] == stamp}
    if len(found) < len(stamps) or not stamps:
        found |= _counted(store, stamps, found)
    total = contents.total([Contents(*row[2:]) for row in found.values() if row[2]])
    if total.entries > FEW and any(known.get(folder) != row for folder, row in found.items()):
        _save({folder: row for folder, row in known.items() if not _lies_in(folder, store.location)} | found)
    return total


def of_code(store: inventory.Files) -> Contents:
    """Count the rows of the generator layer that hold code, as a listing does, and all bytes. Raises nothing."""
    if not isinstance(store, Database):
        listed = inventory.of_store(settings.GENERATOR, store, [])
        return of(store)._replace(entries=sum(one.kind == inventory.CODE for one in listed))
    try:
        status, known = os.lstat(store.location), _load()
        stamp, row = [status.st_ino, status.st_mtime_ns], known.get(store.location, [])
        if row[:2] != stamp:
            row = [*stamp, store.count(_CODE, _HEADER), status.st_size, status.st_mtime, status.st_mtime]
            if row[2] > FEW:
                _save({**known, store.location: row})
        return Contents(*row[2:])
    except _FAULTS as error:
        return Contents(0, 0, 0.0, 0.0, f"{store.location}: {error}")


def _lies_in(folder: str, root: str) -> bool:
    return root in (folder, os.path.dirname(folder))


def _counted(store: inventory.Files, stamps: Mapping[str, list[int]], known: Collection[str]) -> dict[str, list[Any]]:
    """Count the entries of each folder of a store, without the folders that are known."""
    of_folder: dict[str, list[Stat]] = {folder: [] for folder in stamps if folder not in known}
    with suppress(*_FAULTS):
        for place in store.scan():
            folder = os.path.join(store.location, place.rpartition("/")[0]).rstrip("/")
            if folder not in known and (one := store.stat(place)) is not None:
                of_folder.setdefault(folder, []).append(one)
    return {
        folder: [*stamps.get(folder, (0, 0)), len(held), sum(one.size for one in held), *_times(held)]
        for folder, held in of_folder.items()
    }


def _times(held: list[Stat]) -> tuple[float, float]:
    times = [one.used for one in held if one.used is not None]
    return min(times, default=0.0), max(times, default=0.0)


def _load() -> dict[str, list[Any]]:
    with suppress(*_FAULTS):
        document = json.loads(listing.store().get(_ADDRESS) or b"{}")
        if all(len(row) == 6 and all(type(each) in (int, float) for each in row) for row in document.values()):
            return dict(document)
    return {}


def _save(found: Mapping[str, list[Any]]) -> None:
    found = {folder: row for folder, row in found.items() if 0 < row[1] < time.time_ns() - listing.SETTLED}
    with suppress(*_FAULTS):
        listing.store().put(_ADDRESS, json.dumps(found).encode())
