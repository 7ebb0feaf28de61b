"""Damaged databases: recognised by SQLite's errors, and renamed so that they cause no further error."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from kcl.base.settings import trust
from kcl.cache import places

# SQLite's messages for a file whose schema or header is not kcl's. Compared by text, since the error codes have
# harmless meanings too.
_MESSAGES = (
    "no such column",
    "unsupported file format",
    "cannot modify",
    "malformed",
    "no such table",
    "no such index",
)


def is_shown(error: sqlite3.Error, location: str) -> bool:
    """Return True if an error shows that the file is damaged."""
    if not isinstance(error, sqlite3.OperationalError):
        # "file is not a database", "disk image is malformed"; a constraint or a type that the table must not have
        return isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.ProgrammingError
        )
    message = str(error)
    # A damaged header may claim this; if the file is writable after all, it is damaged.
    if "readonly database" in message:
        return os.access(location, os.W_OK) and os.access(os.path.dirname(location), os.W_OK)
    return message.startswith(_MESSAGES) or (
        message.startswith("table dict has") and "columns" in message
    )


def put_aside(location: str, file: tuple[int, int]) -> None:
    """Rename a closed database file, unless another process has replaced it already; only one damaged file is kept."""
    with suppress(FileNotFoundError):
        status = os.lstat(location)
        if file != (status.st_dev, status.st_ino):
            return
        os.replace(location, location + places.ASIDE)
        # SQLite would apply journals of the old file to a new one.
        for suffix in trust.SIDECARS:
            with suppress(FileNotFoundError):
                os.unlink(location + suffix)
