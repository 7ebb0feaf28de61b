"""Memos: a run leaves a memo for the next run like it, an entry under a key that is equal for runs that are alike.

The memos of one sort lie in a folder below kcl's own. The few that were used last are kept. No memo is needed for a
right answer, so no fault passes this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kcl.base import process
from kcl.cache import layers, places
from kcl.cache.entry import Entry, entry_at, origin
from kcl.cache.key import Key
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault, DamagedEntry

KEPT = 64
_FAULTS = (OSError, CacheFault, DamagedEntry, ValueError, TypeError, ImportError)


class UsedMemos:
    """The places of the memos that this process used, by their folder."""

    def __init__(self) -> None:
        self.used: dict[str, dict[str, bool]] = {}


_state = process.own(UsedMemos)


def places_used() -> list[tuple[str, str]]:
    """Return the places that this process used, each with its layer, or with the folder of a memo."""
    used = {name: layer.used for name, layer in layers.opened().items()} | _state().used
    # Copies, since another thread may use an entry.
    return [(name, place) for name, places in used.items() for place in list(places)]


def store(folder: str) -> Directory:
    """Return the store of the memos in a folder."""
    return Directory(places.own(folder))


class RunMemo:
    """The memo of the runs with one key: see `read` and `write`. Thread-safe."""

    def __init__(self, folder: str, key: Key) -> None:
        self._store = Directory(places.own(folder), notes_use=True)
        self._key = key
        self._place = address(key.digest, label=folder)
        _state().used.setdefault(folder, {})[self._place] = True

    def read(self) -> dict[str, Any]:
        """Return the memo of the last run; empty for a missing or unreadable memo. Raises nothing."""
        with suppress(*_FAULTS):
            blob = self._store.get(self._place)
            if blob is not None:
                return entry_at(self._place, blob, self._key).metadata
        return {}

    def write(self, left: Mapping[str, Any]) -> None:
        """Leave a memo for the next run, and remove the memos that were used longest ago. Raises nothing."""
        came = origin(Entry(self._key, self.read(), {}))
        with suppress(*_FAULTS):
            self._store.put(self._place, Entry(self._key, {**left, **came}, {}).pack())
            moments = [
                (item.stat(follow_symlinks=False).st_mtime, place)
                for place, item in self._store.items()
            ]
            for _moment, place in sorted(moments, reverse=True)[KEPT:]:
                self._store.delete(place)
