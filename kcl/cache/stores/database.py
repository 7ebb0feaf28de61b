"""A read-only store of the rows in one file of a PersistentDict: without pytools, for any version of Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kcl.base.settings import trust
from kcl.cache.stores import busy
from kcl.cache.stores.base import ROW_LIMIT, Head, Stat, digest_of
from kcl.errors import DamagedEntry

_HEAD = "SELECT length(key_value), substr(key_value, 1, ?) FROM dict WHERE keyhash=?"


class Database:
    """Read rows that `kcl.cache.stores.persistentdict.Rows` has put; for listings, which import no pytools.

    The file is opened at the first call; a missing file raises `OSError`.
    """

    name = "database"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.location = os.path.abspath(path)
        self._rows: busy.Connection | None = None

    def __del__(self) -> None:
        if self._rows is not None:
            self._rows.close()

    def get(self, address: str) -> bytes | None:
        known = self.stat(address)
        if known is not None and known.size > ROW_LIMIT:
            raise DamagedEntry(f"a row of {known.size} bytes is above the limit of {ROW_LIMIT}")
        found = self.head(address, ROW_LIMIT)
        return None if found is None else found[1]

    def head(self, address: str, length: int) -> Head | None:
        """Return the stat and the first bytes of a row."""
        digest_of(address)
        found = self._asked(_HEAD, length, address)
        if not found:
            return None
        ((size, start),) = found
        if size == 0:  # SQLite returns NULL for no bytes
            return Stat(0, None), b""
        if not isinstance(start, bytes):
            raise DamagedEntry("the row holds no bytes")
        return Stat(size, None), start

    def scan(self) -> Iterator[str]:
        found = self._asked("SELECT keyhash FROM dict ORDER BY rowid")
        for address in dict.fromkeys(address for (address,) in found):  # twice where an index had lost the first row
            with suppress(ValueError):
                digest_of(address)
                yield address

    def stat(self, address: str) -> Stat | None:
        digest_of(address)
        found = self._asked("SELECT length(key_value) FROM dict WHERE keyhash=?", address)
        return Stat(found[0][0], None) if found else None

    def count(self, marker: bytes, length: int) -> int:
        """Count the rows with the bytes of `marker` among their first `length` bytes."""
        command = "SELECT count(*) FROM dict WHERE instr(substr(key_value, 1, ?), ?)"
        return int(self._asked(command, length, marker)[0][0])

    def _asked(self, command: str, *values: object) -> list[tuple[Any, ...]]:
        if self._rows is None:
            self._rows = self._opened()
        trust.check_sidecars(self.location)
        return self._rows.ask(command, values)

    def _opened(self) -> busy.Connection:
        trust.check(os.path.dirname(self.location))
        trust.check_database(self.location)
        connection = busy.connect(self.location, "ro")
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        return connection
