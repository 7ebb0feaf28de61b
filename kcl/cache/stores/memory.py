"""A bounded store in the memory of this process: entries that need not be verified again."""

from __future__ import annotations

from collections.abc import Iterator
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcl.cache.entry import Entry


class SizedEntry(NamedTuple):
    """A verified entry, with the number of its bytes in a store."""

    entry: Entry
    size: int


class Memory:
    """Keep the newest entries up to a number of bytes. Thread-safe."""

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self.limit_bytes = limit_bytes
        self._held: dict[str, SizedEntry] = {}
        self._bytes = 0
        self._lock = RLock()  # a signal handler or a finaliser of the same thread may launch in between

    def get(self, address: str) -> SizedEntry | None:
        """Return the entry at an address."""
        return self._held.get(address)

    def put(self, address: str, held: SizedEntry) -> None:
        """Keep an entry, and drop the oldest ones above the limit; an entry above it is not kept."""
        with self._lock:
            self.delete(address)
            if held.size <= self.limit_bytes:
                self._held[address] = held
                self._bytes += held.size
            while self._bytes > self.limit_bytes:
                self.delete(next(iter(self._held)))

    def delete(self, address: str) -> None:
        """Forget an entry; a missing address is no error."""
        with self._lock:
            held = self._held.pop(address, None)
            self._bytes -= held.size if held is not None else 0

    def scan(self) -> Iterator[str]:
        """Return the addresses of all entries."""
        return iter(list(self._held))
