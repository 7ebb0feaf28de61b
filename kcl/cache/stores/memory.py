"""A bounded store in the memory of this process: entries that need not be verified again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcl.cache.entry import Entry


class SizedEntry(NamedTuple):
    """A verified entry, with the number of its bytes in a store."""

    entry: Entry
    size: int


class Memory:
    """Keep the newest entries up to a number of bytes; each step on the dictionary is one that threads may share."""

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self.limit_bytes = limit_bytes
        self._held: dict[str, SizedEntry] = {}

    def get(self, address: str) -> SizedEntry | None:
        """Return the entry at an address."""
        return self._held.get(address)

    def put(self, address: str, held: SizedEntry) -> None:
        """Keep an entry, and drop the oldest ones above the limit; an entry above it is not kept."""
        self.delete(address)
        if held.size > self.limit_bytes:
            return
        self._held[address] = held
        while sum([one.size for one in list(self._held.values())]) > self.limit_bytes:
            for oldest in list(self._held)[:1]:
                self.delete(oldest)

    def delete(self, address: str) -> None:
        """Forget an entry; a missing address is no error."""
        self._held.pop(address, None)

    def scan(self) -> Iterator[str]:
        """Return the addresses of all entries."""
        return iter(list(self._held))
