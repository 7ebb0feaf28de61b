"""The contents of a foreign cache: its own files, their entries, size and age."""

from __future__ import annotations

import functools
import math
import os
import re
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import NamedTuple

from kcl import caches
from kcl.base import settings
from kcl.base.settings import trust
from kcl.caches.table import ROWS


class Contents(NamedTuple):
    """Entries, bytes, and the times of the oldest and the newest file in seconds since the epoch, 0 without files."""

    entries: int
    bytes: int
    oldest: float
    newest: float
    fault: str = ""


def files(name: str) -> tuple[str, ...]:
    """Return the existing files and directories that are this cache's own, sorted.

    Links, the files of others in the same directory, and that directory itself are not among them.
    """
    place = caches.place(name).path
    if not place:
        return ()
    return tuple(sorted(item.path for item in _own(name, place)))


def looks_like(name: str, path: str) -> bool:
    """Tell whether a path is a directory of the cache `name`: it holds a file of the cache.

    A link, the root, a home and a directory above a home do not count.
    """
    if os.path.islink(path) or not os.path.isdir(path) or _is_too_wide(path):
        return False
    return next(_own(name, path), None) is not None


def measure(name: str) -> Contents:
    """Count the contents of the cache `name`; opens its databases for reading, and no other file."""
    return of(files(name), ROWS[name].entry)


def of(paths: Iterable[str], counting: str) -> Contents:
    """Count files, and the files below directories: an entry is a file with a matching name, or with `rows` a row."""
    folders, status_of = [], {}
    for path in paths:
        with suppress(OSError):  # removed since, or not readable
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                folders.append(path)
            else:
                status_of[path] = status
    if not (folders or status_of):  # most caches are absent: no pattern is compiled for them
        return Contents(0, 0, 0.0, 0.0)
    if counting != "rows":
        return _of_files(folders, status_of, re.compile(counting).fullmatch)
    entries, fault = 0, ""
    for path in status_of:
        if not path.endswith(trust.SIDECARS):
            try:
                special = trust.special_file(path)
                fault = special or fault
                entries += 0 if special else _count(path)
            except (OSError, sqlite3.Error) as error:
                fault = f"{path}: {error}"
    times = [status.st_mtime for status in status_of.values()]
    size = sum(status.st_size for status in status_of.values())
    return Contents(entries, size, min(times, default=0.0), max(times, default=0.0), fault)


def total(found: Sequence[Contents]) -> Contents:
    """Return the sum of contents; its fault is the first fault."""
    return Contents(
        sum(one.entries for one in found),
        sum(one.bytes for one in found),
        min(filter(None, (one.oldest for one in found)), default=0.0),
        max((one.newest for one in found), default=0.0),
        next((one.fault for one in found if one.fault), ""),
    )


def _of_files(folders: list[str], files: dict[str, os.stat_result], is_entry: Callable[[str], object]) -> Contents:
    """Count files, and the files below folders; a cache can be large, so no list is kept."""
    entries = size = 0
    oldest, newest = math.inf, 0.0
    for name, status in _every(folders, files):
        if stat.S_ISREG(status.st_mode):
            size += status.st_size
            oldest, newest = min(oldest, status.st_mtime), max(newest, status.st_mtime)
            entries += bool(is_entry(name))
    return Contents(entries, size, oldest if newest else 0.0, newest)


def _every(folders: list[str], files: dict[str, os.stat_result]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of files, and of the files below folders; links are not followed."""
    for path, status in files.items():
        yield os.path.basename(path), status
    while folders:
        for item in _items(folders.pop()):
            with suppress(OSError):
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
                else:
                    yield item.name, item.stat(follow_symlinks=False)


def version(name: str) -> str:
    """Return the version of the owner in this Python, or on this system; empty without an owner or a known version.

    Looks at the names of the installed distributions only: importlib.metadata adds 25 ms to the 65 ms of `kcl status`.
    """
    row = ROWS[name]
    with suppress(OSError):
        if row.version_file:
            with open(row.version_file, encoding="ascii", errors="replace") as stream:
                return stream.read(64).strip()
    wanted = row.package.replace("_", "-").lower() + "-"
    for folder in sys.path if row.package else ():
        for item in _distributions(folder):
            if item.startswith(wanted) and item[len(wanted)].isdigit():
                return item[len(wanted) :]
    return ""


@functools.cache
def _distributions(folder: str) -> tuple[str, ...]:
    """Return "name-version" of the distributions installed in a directory of modules."""
    end = ".dist-info"
    try:
        names = [name for name in os.listdir(folder or ".") if name.endswith(end)]
    except OSError:
        return ()
    pairs = (name[: -len(end)].partition("-") for name in names)
    return tuple(f"{name.replace('_', '-').lower()}-{version}" for name, _, version in pairs)


def _own(name: str, path: str) -> Iterator[os.DirEntry[str]]:
    items = list(_items(path))
    if not items:
        return
    row = ROWS[name]
    is_own, is_inside = re.compile(row.own or r"(?!)").fullmatch, re.compile(row.inside or ".*").fullmatch
    for item in items:
        if not is_own(item.name) or item.is_symlink():
            continue
        if item.is_file() or not row.inside or all(is_inside(each.name) for each in _items(item.path)):
            yield item


def _items(path: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError):
        with os.scandir(path) as found:
            yield from found


def _count(path: str) -> int:
    """Count the rows of all tables of a database, opened for reading."""
    with closing(sqlite3.connect(trust.database_uri(path, "ro"), uri=True, timeout=0.2)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
        count = 0
        for (table,) in tables:
            quoted = str(table).replace('"', '""')
            count += int(database.execute(f'SELECT COUNT(*) FROM "{quoted}"').fetchone()[0])
        return count


def _is_too_wide(path: str) -> bool:
    """Tell whether a directory is the root, a home, or a directory above a home."""
    real = os.path.realpath(path)
    home = os.path.realpath(settings.home())
    return os.path.dirname(real) == real or os.path.commonpath([real, home]) == real
