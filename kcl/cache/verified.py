"""Verified entries: the only caller of `Entry.unpack`. Every byte of a store passes here before its use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcl.cache.entry import Entry
from kcl.cache.stores.base import digest_of
from kcl.errors import DamagedEntry

if TYPE_CHECKING:
    from kcl.cache.key import Key


def entry_at(address: str, blob: bytes, key: Key | None = None) -> Entry:
    """Return the entry in the bytes at an address; with `key`, the entry of that key.

    Raises DamagedEntry for bytes that differ from the written ones, and for the entry of another key.
    """
    entry = Entry.unpack(blob, key)
    if key is None and entry.key.digest != digest_of(address):
        raise DamagedEntry(f"the entry at {address} is that of another key: {entry.key.digest}")
    return entry
