"""Damage of a database: which errors of SQLite show it, and the file that is renamed then, so that it never hurts twice."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from kcl.base.settings import trust
from kcl.cache import places

# SQLite's messages for a schema or header of the file that is not kcl's. Their code also has
# harmless meanings.
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
    # The header of a damaged file may claim this too.
    if "readonly database" in message:
        return os.access(location, os.W_OK) and os.access(os.path.dirname(location), os.W_OK)
    return message.startswith(_MESSAGES) or (
        message.startswith("table dict has") and "columns" in message
    )


def put_aside(location: str, file: tuple[int, int]) -> None:
    """Rename a closed file, unless another process has renamed and replaced it; keep one damaged file."""
    with suppress(FileNotFoundError):
        status = os.lstat(location)
        if file != (status.st_dev, status.st_ino):
            return
        os.replace(location, location + places.ASIDE)
        # SQLite would apply these to the new file.
        for suffix in trust.SIDECARS:
            with suppress(FileNotFoundError):
                os.unlink(location + suffix)
