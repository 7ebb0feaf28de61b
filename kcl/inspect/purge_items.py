"""Removal: find the removable items of each cache, measure them, and remove them without touching anything else.

An item is a name in a recognised cache directory. kcl notes the identity of the directory when it finds the item, and
removes the item below the open directory. Removal follows no link, even where another process swaps a directory for a
link. kcl first ends its own work in the background, so that no item reappears.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sqlite3
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import NamedTuple

from kcl import caches
from kcl.base import settings
from kcl.base.settings import option, trust
from kcl.cache import layers, places
from kcl.cache.stores import busy
from kcl.cache.stores.directory import Directory
from kcl.caches import contents
from kcl.caches.table import ROWS
from kcl.inspect import inventory
from kcl.inspect.history import journal

KEPT = "kept"  # the files that kcl keeps beside its entries
_LINK = "it is a symbolic link, and none is followed"
_AT_ONCE = 100  # rows or pages of a database
_INCREMENTAL = 2  # in this mode SQLite gives free pages back on request
_TREES = os.unlink in os.supports_dir_fd and os.open in os.supports_dir_fd


class RemovalItem(NamedTuple):
    """An item to remove: a name in a directory, its contents, and the identity of the directory."""

    cache: str
    folder: str
    name: str
    files: int
    size: int
    newest: float
    identity: tuple[int, int]

    @property
    def path(self) -> str:
        """The path of the item."""
        return os.path.join(self.folder, self.name)


class RemovalRows(NamedTuple):
    """Rows of the generator layer to remove, by address."""

    addresses: tuple[str, ...]
    size: int


class Refusal(NamedTuple):
    """A place that is left alone, and why."""

    cache: str
    place: str
    reason: str


def own() -> list[str]:
    """Return the names that belong to kcl: its layers, and the files that it keeps beside them."""
    return [*layers.TABLE, KEPT]


def everything() -> list[str]:
    """Return the names that stand for all: kcl's own and the caches below it, without neighbours."""
    return [*own(), *(name for name, row in ROWS.items() if not row.neighbour)]


def items(name: str, refusals: list[Refusal], before: float | None = None) -> Iterator[RemovalItem]:
    """Yield the removable items of a cache, with `before` only the older ones; add refused places to `refusals`.

    The age of a directory is that of its newest file.
    """
    for folder, entry in _found(name, refusals):
        item = measured(name, folder, entry)
        if item is not None and (before is None or item.newest < before):
            yield item


def entries(
    names: list[str], kernel: str | None, before: float | None, refusals: list[Refusal]
) -> tuple[list[RemovalItem], RemovalRows]:
    """Return the entries of kcl of a kernel (a name or a shell pattern) that were neither made nor used since `before`.

    Rows that lead to code go with the last code of their kernel. Unreadable entries are added to `refusals`.
    """
    faults: list[inventory.Fault] = []
    uses = journal.uses()
    gone: list[inventory.ListedEntry] = []
    kept: list[inventory.ListedEntry] = []
    for listed in inventory.entries(*names, all_rows=True, faults=faults):
        old = before is None or max(listed.modified, journal.use(uses, listed.digest).last) < before
        fits = kernel is None or fnmatch.fnmatchcase(listed.kernel, kernel)
        (gone if fits and (old or listed.kind in inventory.LEADING) else kept).append(listed)
    refusals += [Refusal(*fault) for fault in faults]
    living = {each.kernel for each in kept if each.layer == settings.GENERATOR}
    return of_entries([each for each in gone if each.kind not in inventory.LEADING or each.kernel not in living])


def of_entries(listed: Sequence[inventory.ListedEntry]) -> tuple[list[RemovalItem], RemovalRows]:
    """Return the items to remove for entries: files for entries that are files, rows for the others."""
    items: list[RemovalItem] = []
    rows: list[inventory.ListedEntry] = []
    for layer in dict.fromkeys(each.layer for each in listed):
        of_layer = [each for each in listed if each.layer == layer]
        stores = inventory.stores(layer, [])
        folders = [store.location for store in stores if isinstance(store, Directory)]
        paths = [os.path.split(os.path.join(folder, each.address)) for folder in folders for each in of_layer]
        items += [item for path in paths if (item := measured(layer, *path)) is not None]
        if len(folders) < len(stores):  # the others are databases
            rows += of_layer
    return items, RemovalRows(tuple([row.address for row in rows]), sum(row.size for row in rows))


def measured(cache: str, folder: str, name: str) -> RemovalItem | None:
    """Return the item under a name in a directory; None where the name does not exist."""
    try:
        above = os.stat(folder)
        top = os.lstat(os.path.join(folder, name))
    except OSError:  # removed in between
        return None
    files, size, newest = (0, 0, top.st_mtime) if stat.S_ISDIR(top.st_mode) else (1, top.st_size, top.st_mtime)
    for place, _folders, names in os.walk(os.path.join(folder, name)):
        for each in names:
            with suppress(OSError):
                status = os.lstat(os.path.join(place, each))
                files, size, newest = files + 1, size + status.st_size, max(newest, status.st_mtime)
    return RemovalItem(cache, folder, name, files, size, newest, (above.st_dev, above.st_ino))


def remove(item: RemovalItem) -> None:
    """Remove an item, if its directory is still the one in which it was found; raises `OSError`."""
    if not _TREES:  # Windows, where a link needs a privilege
        _remove_by_path(item.path)
        return
    descriptor = os.open(item.folder, trust.FOLDER)
    try:
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != item.identity:
            raise OSError(f"{item.folder} is another directory than a moment ago")
        with suppress(FileNotFoundError):
            _remove_at(descriptor, item.name, status.st_dev)
    finally:
        os.close(descriptor)


def remove_rows(rows: RemovalRows) -> None:
    """Remove rows of the generator layer from the files of every Python version; raises `sqlite3.Error`, `OSError`.

    A file gives its space back in small steps, so that other processes wait only briefly for it.
    """
    paths = [store.location for layer in layers.TABLE for store in inventory.stores(layer, [])]
    for path in paths:
        if not path.endswith(places.DATABASE) or trust.special_file(path):
            continue
        with closing(busy.connect(path, "rw")) as connection:
            connection.ask("PRAGMA synchronous = 'OFF'")  # a crash may lose rows; readers verify
            for start in range(0, len(rows.addresses), _AT_ONCE):  # one statement each: no process waits long
                some = tuple(rows.addresses[start : start + _AT_ONCE])
                connection.ask(f"DELETE FROM dict WHERE keyhash IN ({', '.join('?' * len(some))})", some)
            with suppress(sqlite3.OperationalError):  # another process reads: the space is used again later
                _give_back(connection)


def _give_back(connection: busy.Connection) -> None:
    """Make the file smaller; rewrite a file of an earlier kcl once."""
    if connection.ask("PRAGMA auto_vacuum") != [(_INCREMENTAL,)]:
        connection.ask(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        connection.ask("VACUUM")
    while connection.ask("PRAGMA freelist_count") != [(0,)]:
        connection.ask(f"PRAGMA incremental_vacuum({_AT_ONCE})")


def sweep() -> None:
    """Remove the directories of kcl that are empty now."""
    folder = places.own()
    with suppress(OSError):
        if not os.path.islink(folder):
            os.rmdir(folder)


def _found(name: str, refusals: list[Refusal]) -> Iterator[tuple[str, str]]:
    """Yield the directory and the name of each item that belongs to the cache."""
    shared, pattern = places.KEPT if name == KEPT else layers.TABLE[name].own if name in layers.TABLE else ("", "")
    folder = option.folder(shared) if shared else caches.directory(name)
    if folder and (fault := _LINK if os.path.islink(folder) else _unreadable(folder)):
        refusals.append(Refusal(name, folder, fault))
        return
    if not shared:
        files = contents.files(name)
        if files and not contents.looks_like(name, folder):
            refusals.append(Refusal(name, folder, f"it does not look like {ROWS[name].title}"))
        else:
            yield from (os.path.split(path) for path in files)
        return
    for entry in _names(folder):
        if not re.fullmatch(pattern, entry):
            continue
        if os.path.islink(os.path.join(folder, entry)):
            refusals.append(Refusal(name, os.path.join(folder, entry), _LINK))
        else:
            yield folder, entry


def _unreadable(folder: str) -> str:
    """Say why an existing directory cannot be read; empty where it can be read or does not exist."""
    try:
        os.scandir(folder).close()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _remove_at(above: int, name: str, device: int) -> None:
    """Remove a name below an open directory: a file, or a directory with its contents, but no other file system."""
    status = os.lstat(name, dir_fd=above)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=above)
        return
    for attempt in range(3):
        descriptor = os.open(name, trust.FOLDER, dir_fd=above)
        try:
            if os.fstat(descriptor).st_dev != device:
                raise OSError(f"{name} is another file system, mounted here")
            for each in os.listdir(descriptor):
                with suppress(FileNotFoundError):
                    _remove_at(descriptor, each, device)
        finally:
            os.close(descriptor)
        try:
            os.rmdir(name, dir_fd=above)
            return
        except OSError:  # another process wrote in between
            if attempt == 2:
                raise


def _remove_by_path(path: str) -> None:
    import shutil

    with suppress(FileNotFoundError):
        shutil.rmtree(path) if os.path.isdir(path) and sys.platform == "win32" else os.unlink(path)
