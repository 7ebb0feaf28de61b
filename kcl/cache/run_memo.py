"""Memos: what a run leaves for the next run of the same program and recipe. There is one kind of memo:

    shapes/<address>        the sizes that calls of a recipe were seen with

A memo has the form of an entry, so that bundles can carry it. The `KEPT` memos that were used last are kept. Results are
right without memos, so faults are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from kcl.base import process
from kcl.cache import layers, places
from kcl.cache.entry import Entry, entry_at, origin
from kcl.cache.key import Key
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault, DamagedEntry

# The place of an entry: the name of its layer, or the folder of a memo, and the address there.
EntryPlace = tuple[str, str]
KEPT = 64
_FAULTS = (OSError, CacheFault, DamagedEntry, ValueError, TypeError, ImportError)


class UsedMemos:
    """The addresses of the memos that this process used."""

    def __init__(self) -> None:
        self.addresses: dict[str, None] = {}


_state = process.own(UsedMemos)


def places_used() -> list[EntryPlace]:
    """Return the places of the entries and memos that this process used."""
    used: dict[str, Iterable[str]] = {name: layer.used for name, layer in layers.opened().items()}
    used[places.SHAPES] = _state().addresses
    # Copies, since another thread may use an entry.
    return [(name, address) for name, addresses in used.items() for address in list(addresses)]


def store(notes_use: bool = False) -> Directory:
    """Return the store of the memos."""
    return Directory(places.own(places.SHAPES), notes_use)


class RunMemo:
    """The memo under one key, read by one run and written for the next. Thread-safe."""

    def __init__(self, key: Key) -> None:
        self._store = store(notes_use=True)
        self._key = key
        self._address = address(key.digest, label=places.SHAPES)
        _state().addresses[self._address] = None

    def read(self) -> dict[str, Any]:
        """Return the memo of the last run; empty for a missing or unreadable memo. Raises nothing."""
        with suppress(*_FAULTS):
            blob = self._store.get(self._address)
            if blob is not None:
                return entry_at(self._address, blob, self._key).metadata
        return {}

    def write(self, memo: Mapping[str, Any]) -> None:
        """Write the memo for the next run, and remove the memos that were used longest ago. Raises nothing."""
        # A memo that came from a remote keeps its signers.
        signers = origin(Entry(self._key, self.read(), {}))
        with suppress(*_FAULTS):
            self._store.put(self._address, Entry(self._key, {**memo, **signers}, {}).pack())
            self._store.keep_newest(KEPT)
