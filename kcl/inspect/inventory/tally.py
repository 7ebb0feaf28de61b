"""How much lies in each folder of a large store, kept in a file, since looking at ten thousand files takes long.

    {folder: [inode, time of its last change in ns, entries, bytes, oldest, newest]}

Entries are put in place by renaming, so a folder that was not changed holds what it held. The file is a summary that
can be made anew at any time; a wrong one would show a wrong size, and decides nothing.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any

from kcl.cache import places
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.caches import contents
from kcl.caches.contents import Contents
from kcl.errors import CacheFault

FEW = 256  # entries of a store that is looked at anew each time
_SETTLED = 2_000_000_000  # ns; a folder that changed so lately can change again without a trace in its time
_FAULTS = (OSError, CacheFault, ValueError, TypeError, AttributeError)
_ADDRESS = address("0" * 64, label="tally")
_ENTRY = r"[^.].*"  # what is being written begins with a full stop


def of(root: str) -> Contents:
    """Count the entries in the folders of a store; raises nothing."""
    known, found = _load(), {}
    for folder, stamp in _folders(root):
        before = known.get(folder)
        if before is not None and before[:2] == stamp:
            found[folder] = before
        else:
            found[folder] = [*stamp, *contents.of([folder], _ENTRY)[:4]]
    rows = [Contents(*row[2:]) for row in found.values() if row[2]]
    total = Contents(
        sum(row.entries for row in rows),
        sum(row.size for row in rows),
        min((row.oldest for row in rows), default=0.0),
        max((row.newest for row in rows), default=0.0),
    )
    if total.entries > FEW and found != known:
        _save({folder: row for folder, row in found.items() if row[1] < time.time_ns() - _SETTLED})
    return total


def _folders(root: str) -> list[tuple[str, list[int]]]:
    found = []
    with suppress(OSError), os.scandir(root) as items:
        for item in items:
            if item.is_dir(follow_symlinks=False):
                status = item.stat(follow_symlinks=False)
                found.append((item.path, [status.st_ino, status.st_mtime_ns]))
    return found


def _load() -> dict[str, list[Any]]:
    with suppress(*_FAULTS):
        document = json.loads(_store().get(_ADDRESS) or b"{}")
        if all(len(row) == 6 and all(type(each) in (int, float) for each in row) for row in document.values()):
            return dict(document)
    return {}


def _save(found: dict[str, list[Any]]) -> None:
    with suppress(*_FAULTS):
        _store().put(_ADDRESS, json.dumps(found).encode())


def _store() -> Directory:
    return Directory(places.own(places.LISTING))
