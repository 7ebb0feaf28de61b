"""A store of rows in a PersistentDict of pytools: one small SQLite file for many small entries.

The file is a local index that kcl can make again at any time. A damaged file is set aside, and a file that was deleted
or replaced is opened again.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.base import ROW_LIMIT, Stat, digest_of
from kcl.errors import DamagedEntry

if TYPE_CHECKING:
    from kcl.cache.stores.generatordict import GeneratorDict

T = TypeVar("T")

# Releases of pytools with a PersistentDict that fits `GeneratorDict`: 2026.1.1 passed all of
# tests/unit/cache/stores/test_persistentdict.py; 2024.1.8, 2024.1.15, 2024.1.21, 2025.1, 2025.1.7, 2025.2.5 and 2026.1
# passed its TestPytools, TestNoPickle, TestRows, TestProcesses and TestBusy. The releases between were not run. Earlier
# releases have no mutex (2024.1.5 to 2024.1.7) or another file (2024.1.3 and before).
_FIRST, _END = (2024, 1, 8), (2026, 2)

# SQLite's messages, under a code that also has harmless meanings, for a schema or header of the file that is not kcl's
_DAMAGE = ("no such column", "unsupported file format", "cannot modify", "malformed", "no such table", "no such index")


def supported(version: tuple[int, ...]) -> bool:
    """Tell whether kcl's rows were tested with the PersistentDict of this release of pytools."""
    return _FIRST <= tuple(version) < _END


def filename(container_dir: str, identifier: str) -> str:
    """Return the path of the file of a PersistentDict: as pytools names it, but one file for a minor release of Python.

    Keys hold the minor release too, and the tag of the bytecode: all patch releases of Python find the same rows.
    """
    return os.path.join(container_dir, places.dictionary(identifier, "-{}.{}".format(*sys.version_info)))


class Rows:
    """Keep each blob as a row of one SQLite file, in the directory that pytools uses.

    Rows hold the bytes of entries and are never unpickled. The table has no place for the time of a use. The file is
    opened at the first `get` and made at the first `put`. A method waits for a busy file while others change it, then
    raises `sqlite3.OperationalError`. A damaged file is renamed to ``...damaged-1``, once per process, and reported by
    `DamagedEntry`: a `get` then finds nothing, and a `put` has kept its row in a new file.
    """

    name = "persistentdict"

    def __init__(self, container_dir: str | os.PathLike[str], identifier: str = places.GENERATED) -> None:
        self.identifier = identifier
        self.container_dir = os.path.abspath(container_dir)
        self.location = filename(self.container_dir, identifier)
        self._rows: GeneratorDict | None = None
        self._trusted = False
        self._set_aside = False

    def get(self, address: str) -> bytes | None:
        digest_of(address)
        rows = self._open()
        if rows is None:
            return None
        try:
            return self._guard(rows.fetch, address)
        except KeyError:
            return None

    def put(self, address: str, blob: bytes) -> None:
        digest_of(address)
        if len(blob) > ROW_LIMIT:
            raise ValueError(f"{len(blob)} bytes are above the limit of {ROW_LIMIT} for a row")
        rows = self._open()
        if rows is None:  # not "or": an empty mapping is false
            rows = self._make()
        try:
            self._guard(rows.store, address, blob)
        except DamagedEntry:
            if not os.path.lexists(self.location):
                self._make().store(address, blob)
            raise

    def delete(self, address: str) -> None:
        digest_of(address)
        rows = self._open()
        if rows is not None:
            with suppress(KeyError):
                self._guard(rows.remove, address)

    def scan(self) -> Iterator[str]:
        rows = self._open()
        if rows is None:
            return
        for address in self._guard(lambda: list(rows.keys())):
            with suppress(ValueError):
                digest_of(address)
                yield address

    def stat(self, address: str) -> Stat | None:
        digest_of(address)
        rows = self._open()
        if rows is None:
            return None
        with suppress(KeyError):
            return Stat(self._guard(rows.size, address), None)
        return None

    def _open(self) -> GeneratorDict | None:
        """Return the dictionary on the current file; ``None`` for a missing file."""
        try:
            status = os.lstat(self.location)
        except (FileNotFoundError, NotADirectoryError):
            self._rows = None
            trust.check(self.container_dir)
            return None
        trust.check_sidecars(self.location)
        if self._rows is not None and self._rows.usable(status):
            return self._rows
        if not self._trusted:
            self._trusted = trust.check(self.container_dir)
        trust.check_database(self.location)
        return self._make()

    def _make(self) -> GeneratorDict:
        trust.check_sidecars(self.location)
        from kcl.cache.stores.generatordict import GeneratorDict

        self._rows = GeneratorDict(self.identifier, self.container_dir, self.location)
        return self._rows

    def _guard(self, use: Callable[..., T], *values: object) -> T:
        """Call a method of the dictionary; set the file aside if the error shows damage."""
        try:
            return use(*values)
        except sqlite3.Error as error:
            if self._set_aside or not self._is_damage(error):
                raise
            self._put_aside()
            aside = self.location + places.ASIDE
            raise DamagedEntry(f"{self.location} was damaged ({error}) and is now {aside}") from error

    def _is_damage(self, error: sqlite3.Error) -> bool:
        if not isinstance(error, sqlite3.OperationalError):
            # "file is not a database", "disk image is malformed"; a constraint or a type that the table must not have
            return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.ProgrammingError)
        message = str(error)
        if "readonly database" in message:  # the header of a damaged file may claim this too
            return os.access(self.location, os.W_OK) and os.access(self.container_dir, os.W_OK)
        return message.startswith(_DAMAGE) or (message.startswith("table dict has") and "columns" in message)

    def _put_aside(self) -> None:
        """Rename the file, unless another process has renamed and replaced it; keep one damaged file."""
        self._set_aside = True
        rows, self._rows = self._rows, None
        with suppress(FileNotFoundError):
            if rows is None or not rows.usable(os.lstat(self.location)):
                return
            os.replace(self.location, self.location + places.ASIDE)
        for suffix in trust.SIDECARS:  # SQLite would apply these to the new file
            with suppress(FileNotFoundError):
                os.unlink(self.location + suffix)
