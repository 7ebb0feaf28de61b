"""Verified entries: the only caller of `Entry.unpack`. No byte of a store is used that did not pass here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcl.cache.entry import Entry
from kcl.cache.stores.base import digest_of
from kcl.errors import DamagedEntry

if TYPE_CHECKING:
    from kcl.cache.key import Key


def entry_at(address: str, blob: bytes, key: Key | None = None) -> Entry:
    """Return the entry in the bytes at an address, that of `key` where one is given.

    Raises DamagedEntry for bytes that are not what was written, and for the entry of another key.
    """
    entry = Entry.unpack(blob, key)
    if key is None and entry.key.digest != digest_of(address):
        raise DamagedEntry(f"the entry at {address} is that of another key: {entry.key.digest}")
    return entry
