"""What lies in a foreign cache: its own files, how many entries, how large, how old."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import NamedTuple

from kcl import adapters
from kcl.adapters.table import ROWS

_COMPANIONS = ("-journal", "-wal", "-shm")


class Contents(NamedTuple):
    """Entries, bytes, and the times of the oldest and the newest file in seconds since the epoch, 0 without files."""

    entries: int
    size: int
    oldest: float
    newest: float
    fault: str = ""


def files(name: str) -> tuple[str, ...]:
    """Return what is this cache's own in its directory, sorted: files, and directories as a whole; never a link."""
    place = adapters.place(name).path
    if not place:
        return ()
    if ROWS[name].own == "file":
        return tuple(path for path in (place, *(place + end for end in _COMPANIONS)) if _is_file(path))
    return tuple(sorted(item.path for item in _own(name, place)))


def looks_like(name: str, path: str) -> bool:
    """Tell whether a path is a directory of that cache; never a link, the root, a home or what a home lies in."""
    if os.path.islink(path) or not os.path.isdir(path) or _is_too_wide(path):
        return False
    if ROWS[name].own == "file":
        return any(_is_database(item.path) for item in _items(path) if item.name.endswith(".db"))
    return next(_own(name, path), None) is not None


def measure(name: str) -> Contents:
    """Count what lies in the cache `name`; opens its databases to read, and nothing else."""
    counting = ROWS[name].entry
    entry = re.compile(counting)
    entries = size = 0
    oldest = newest = 0.0
    fault = ""
    for path in files(name):
        for place, status in _walk(path):
            size += status.st_size
            moment = status.st_mtime
            newest = max(newest, moment)
            oldest = min(oldest or moment, moment)
            if counting != "rows":
                entries += entry.fullmatch(os.path.basename(place)) is not None
            elif not place.endswith(_COMPANIONS):
                try:
                    entries += _count(place)
                except sqlite3.Error as error:
                    fault = f"{place}: {error}"
    return Contents(entries, size, oldest, newest, fault)


def _own(name: str, path: str) -> Iterator[os.DirEntry[str]]:
    row = ROWS[name]
    pattern, inside = re.compile(row.own or r"(?!)"), re.compile(row.inside or ".*")
    for item in _items(path):
        if not pattern.fullmatch(item.name) or item.is_symlink():
            continue
        if item.is_file() or all(inside.fullmatch(each.name) for each in _items(item.path)):
            yield item


def _items(path: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError):
        with os.scandir(path) as found:
            yield from found


def _walk(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every regular file of a tree with its status; links are not followed."""
    with suppress(OSError):  # removed meanwhile, or not ours to read
        status = os.lstat(path)
        if not os.path.isdir(path) or os.path.islink(path):
            yield path, status
            return
    folders = [path]
    while folders:
        for item in _items(folders.pop()):
            if item.is_dir(follow_symlinks=False):
                folders.append(item.path)
            elif item.is_file(follow_symlinks=False):
                with suppress(OSError):
                    yield item.path, item.stat(follow_symlinks=False)


def _count(path: str) -> int:
    """Count the rows of all tables of a database, which is opened to read."""
    with closing(sqlite3.connect(_uri(path), uri=True, timeout=0.2)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
        count = 0
        for (table,) in tables:
            quoted = str(table).replace('"', '""')
            count += int(database.execute(f'SELECT COUNT(*) FROM "{quoted}"').fetchone()[0])
        return count


def _uri(path: str) -> str:
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02x}")
    return f"file:{'///' + path.replace(os.sep, '/') if os.name == 'nt' else path}?mode=ro"


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _is_database(path: str) -> bool:
    with suppress(OSError):
        if _is_file(path):
            with open(path, "rb") as stream:
                return stream.read(16) == b"SQLite format 3\0"
    return False


def _is_too_wide(path: str) -> bool:
    """Tell whether a directory is the root, a home, or one that a home lies in."""
    real = os.path.realpath(path)
    home = os.path.realpath(os.path.expanduser("~"))
    return os.path.dirname(real) == real or os.path.commonpath([real, home]) == real
