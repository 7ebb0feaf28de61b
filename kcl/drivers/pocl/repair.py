"""Repair: before PoCL loads the binary of an entry, the program's files in its own cache become those of the entry.

PoCL checks none of its files, and uses a file of its cache in place of the one in a binary: a damaged file ends every
process that loads the program. PoCL wrote its files, or would write them for the binary if they were missing. So a file
with other bytes is replaced by the entry's, whose digest was verified, in one step. PoCL writes a missing file itself.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kcl import caches
from kcl.base.settings import trust
from kcl.cache.stores.directory import publish
from kcl.drivers.pocl import poclbin

if TYPE_CHECKING:
    from kcl.cache.entry import Entry


def repair(entry: Entry) -> None:
    """Replace the files of PoCL's cache that differ from the entry's; raises nothing. Thread-safe.

    If a file cannot be replaced the program is removed. What stays in the way is a fault that PoCL will report.
    """
    folder, files = _compared(entry)
    try:
        if files:
            trust.check_writer(folder)
        for path, content in files.items():
            publish(path, content)
    except PermissionError:  # root makes no files in the home of another user, who could not read them
        return
    except OSError:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            os.unlink(folder)


def _compared(entry: Entry) -> tuple[str, dict[str, bytes]]:
    """Return the program's folder in PoCL's cache, and the entry's files that differ from those there."""
    try:
        container = poclbin.read(entry.parts["binary"])
    except ValueError:  # of another PoCL
        return "", {}
    folder = f"{os.path.abspath(caches.directory_in_use('pocl'))}/{container.program}"
    files = {folder + path: content for path, content in container.files().items()}
    return folder, {path: content for path, content in files.items() if not _holds(path, content)}


def _holds(path: str, content: bytes) -> bool:
    """Tell whether a file holds these bytes, or is missing."""
    try:
        with trust.reading(path) as stream:
            return stream.read(len(content) + 1) == content
    except FileNotFoundError:
        return True
    except OSError:
        return False
