"""The size of the stores: entries and bytes, counted anew each time; of files no content is read."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from kcl.base import settings
from kcl.cache import layers, places
from kcl.cache.stores.sqlite import Database
from kcl.caches import contents
from kcl.caches.contents import Contents
from kcl.errors import CacheFault
from kcl.inspect import inventory

# A text that only the header of an entry with code has, among so many bytes; inside of a text it would be escaped.
_CODE, _HEADER = b'"parts":[["source.cl",', 1 << 16


def of_layer(name: str) -> Contents:
    """Count a layer's entries, as a listing does, and all bytes: the rows and files of all Python versions."""
    stores = inventory.stores(name, [])
    found = [of(name, store) for store in stores]
    if stores and name == settings.GENERATOR:
        folder, start = places.dictionaries(), places.DICTIONARY + places.GENERATED
        mine = [os.path.join(folder, each) for each in os.listdir(folder) if each.startswith(start)]
        beside = [path for path in mine if not (path.endswith(places.DATABASE) or os.path.isdir(path))]
        found.append(contents.of(beside, ""))
    return contents.total(found)


def of(layer: str, store: layers.Files) -> Contents:
    """Count the entries of a store: of the generator layer the rows that hold code. Raises nothing."""
    found = files(store)
    try:
        if isinstance(store, Database):
            return found._replace(entries=store.count(_CODE, _HEADER))
    except (OSError, sqlite3.Error, CacheFault) as error:
        return Contents(0, 0, 0.0, 0.0, f"{store.location}: {error}")
    if layer == settings.GENERATOR:
        return found._replace(entries=sum(one.kind == inventory.CODE for one in inventory.of_store(layer, store, [])))
    return found


def files(store: layers.Files) -> Contents:
    """Count the files of a store and their bytes, as far as its folders can be listed; opens none."""
    if isinstance(store, Database):
        return contents.of([store.location], "")
    held = []
    with suppress(OSError):
        for _address, item in store.items():
            with suppress(OSError):  # removed in between
                held.append(item.stat(follow_symlinks=False))
    times = [status.st_mtime for status in held]
    return Contents(len(held), sum(status.st_size for status in held), min(times, default=0.0), max(times, default=0.0))
