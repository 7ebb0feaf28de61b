"""The contents of a foreign cache (files, entries, size, age), and whether its owner is on this machine.

A driver is there if an ICD file names its library, a package if it is installed. On systems without ICD files every
owner counts as there. No owner is loaded.
"""

from __future__ import annotations

import glob
import os
import re
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from typing import NamedTuple

from kcl import foreign
from kcl.base import settings
from kcl.base.settings import trust
from kcl.foreign.table import ROWS

FOLDERS = (os.path.join(sys.prefix, "etc", "OpenCL", "vendors"), "/etc/OpenCL/vendors")


class Contents(NamedTuple):
    """The entries and bytes of a cache, and the times of its oldest and newest file (seconds since the epoch, or 0)."""

    entries: int
    bytes: int
    oldest: float
    newest: float
    fault: str = ""


def files(name: str) -> tuple[str, ...]:
    """Return the files and directories that belong to this cache, sorted.

    Links, files of other owners in the same directory, and the directory itself are left out.
    """
    place, row = foreign.place(name).path, ROWS[name]
    is_inside = re.compile(row.inside).fullmatch
    return tuple(
        sorted(
            item.path
            for item in (_scan(place) if place else ())
            if re.fullmatch(row.own, item.name) and not item.is_symlink()
            if item.is_file() or all(is_inside(inner.name) for inner in _scan(item.path))
        )
    )


def is_too_wide(path: str) -> bool:
    """Return True if a path is the file system's root, the user's home, or above it: then it cannot be a cache."""
    real, home = os.path.realpath(path), os.path.realpath(settings.home())
    return os.path.dirname(real) == real or os.path.commonpath([real, home]) == real


def measure(name: str) -> Contents:
    """Count the contents of the cache `name`. Only databases are opened, for reading."""
    return count(files(name), ROWS[name].entry)


def count(paths: Iterable[str], counting: str) -> Contents:
    """Count files, also below directories. An entry is a file whose name matches `counting`, or each row for "rows"."""
    is_entry, entries, size = re.compile(counting).fullmatch, 0, 0
    oldest, newest, fault = 0.0, 0.0, ""
    for path, status in _walk(paths):
        size += status.st_size
        oldest = min(oldest or status.st_mtime, status.st_mtime)
        newest = max(newest, status.st_mtime)
        if counting != "rows":
            entries += bool(is_entry(os.path.basename(path)))
        elif not path.endswith(trust.SIDECARS):
            try:
                entries += _count_rows(path)
            except sqlite3.Error as error:
                fault = f"{path}: {error}"
    return Contents(entries, size, oldest, newest, fault)


def version(name: str) -> str:
    """Return the version of the owner in this Python; empty for a driver of the system."""
    if package := ROWS[name].package:
        # This import takes 15 ms.
        from importlib import metadata

        with suppress(metadata.PackageNotFoundError):
            return metadata.version(package)
    return ""


def is_here(name: str) -> bool:
    """Return True if the owner of the cache `name` is on this machine."""
    icd, module = ROWS[name].icd, ROWS[name].package.replace("-", "_")
    return (
        sys.platform != "linux"
        or bool(icd and icd in _read_icd_files())
        or module in sys.modules
        or bool((module and find_spec(module)) or version(name))
    )


def is_platform_here(platform: str) -> bool:
    """Return True if the driver of an OpenCL platform is on this machine, or if no row has its name."""
    owners = [name for name, row in ROWS.items() if platform in row.platforms]
    return not owners or any(map(is_here, owners))


def _read_icd_files() -> str:
    """Return the text of all ICD files, and of the variables that list libraries, as ICD loaders read them."""
    values = [
        settings.variable(name)
        for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")
    ]
    listed = [part for value in values if value for part in value.split(os.pathsep)]
    texts = []
    for place in (*listed, *FOLDERS):
        for file in (place, *glob.glob(os.path.join(glob.escape(place), "*.icd"))):
            with suppress(OSError), open(file, encoding="utf-8", errors="replace") as stream:
                texts.append(stream.read())
    return "\n".join([*listed, *texts])


def _walk(paths: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and status of files, and of the files below directories; links are not followed."""
    # A cache can be large, so no list of its files is made: only paths of directories wait here.
    left = list(paths)
    while left:
        path = left.pop()
        # Another process may have removed the path, or it is not readable.
        with suppress(OSError):
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                left += [item.path for item in _scan(path)]
            elif stat.S_ISREG(status.st_mode):
                yield path, status


def _scan(path: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError):
        with os.scandir(path) as items:
            yield from items


def _count_rows(path: str) -> int:
    """Count the rows of all tables of a database, opened for reading; raises sqlite3.Error."""
    with closing(
        sqlite3.connect(trust.database_uri(path, "ro"), uri=True, timeout=0.2)
    ) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
        quoted = [str(table).replace('"', '""') for (table,) in tables]
        return sum(
            int(database.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0]) for name in quoted
        )
