"""Stores: bytes by address, with get, put, delete and scan. This module has the contract and the form of addresses.

A store does not interpret its bytes: `kcl.cache.entry` verifies every byte that comes back.

    address = [folder "/"] [label "-"] digest
    folder  = label = letters, digits and ". _ + -", not starting with a full stop, of limited length
    digest  = 64 lower-case hex digits

Folder and label are for people who look into the directory; only the digest identifies the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

ROW_LIMIT = 64 << 20  # bytes of an entry in a database
_FOLDER_LENGTH = 80
_LABEL_LENGTH = 60
_ADDRESS = re.compile(r"(?:[\w+-][\w.+-]{0,79}/)?(?:[\w+-][\w.+-]{0,59}-)?([0-9a-f]{64})", re.ASCII)


class Stat(NamedTuple):
    """What a store knows of the bytes at an address without reading them.

    `size` is their number. `used` is the time of their last use in seconds since the epoch, exact to a day; a `put` counts
    as a use. It is None if the store does not know the time.
    """

    size: int
    used: float | None


# What a listing reads of an entry: its stat and its first bytes.
Head = tuple[Stat, bytes]


class Store(Protocol):
    """Bytes by address, in one place.

    Several threads may call the methods. `put` replaces earlier bytes, whole or not at all. `put` and `delete` are
    called only if the store is `writable`. `OSError`, `sqlite3.Error` and `kcl.errors.CacheFault` may escape from each
    method; the caller catches them.
    """

    location: str
    writable: bool

    def get(self, address: str) -> bytes | None:
        """Return the bytes at an address, or ``None`` for a missing address; create nothing."""

    def put(self, address: str, blob: bytes) -> None:
        """Store the bytes at an address, in place of earlier ones."""

    def delete(self, address: str) -> None:
        """Remove the bytes at an address; a missing address is no error."""

    def scan(self) -> Iterator[str]:
        """Yield the addresses that hold bytes; other users of the store may add and delete during the scan."""


def address(digest: str, folder: str = "", label: str = "") -> str:
    """Return the address of a digest. Any folder and label give a relative path that every file system allows."""
    made = digest
    if label := make_safe(label, _LABEL_LENGTH):
        made = f"{label}-{made}"
    if folder := make_safe(folder, _FOLDER_LENGTH):
        made = f"{folder}/{made}"
    digest_of(made)
    return made


def digest_of(address: str) -> str:
    """Return the digest in an address; raise `ValueError` for a text that `address` does not make."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(f"not the address of an entry: {address!r}")
    return match[1]


def make_safe(text: str, length: int) -> str:
    """Return a text with only characters that every file system allows in a name, shortened; it may be empty."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", text)[:length].strip(".")
