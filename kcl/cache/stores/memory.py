"""A bounded store in the memory of this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from threading import RLock

from kcl.cache.stores.base import Stat, digest_of


class Memory:
    """Keep the most recently used blobs up to a number of bytes; safe to use from several threads.

    The store knows the order of uses and not their times.
    """

    name = "memory"
    writable = True
    location = "memory"

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self.limit_bytes = limit_bytes
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = RLock()  # a signal handler or a finaliser of the same thread may launch in between

    def get(self, address: str) -> bytes | None:
        with self._lock:
            blob = self._blobs.get(address)
            if blob is not None:
                self._blobs.move_to_end(address)
            return blob

    def put(self, address: str, blob: bytes) -> None:
        """Keep the bytes, and drop the least recently used blobs above the limit; a blob above it is not kept."""
        digest_of(address)
        with self._lock:
            self._drop(address)
            if len(blob) > self.limit_bytes:
                return
            self._blobs[address] = bytes(blob)
            self._bytes += len(blob)
            while self._bytes > self.limit_bytes:
                self._drop(next(iter(self._blobs)))

    def delete(self, address: str) -> None:
        with self._lock:
            self._drop(address)

    def scan(self) -> Iterator[str]:
        with self._lock:
            addresses = list(self._blobs)
        return iter(addresses)

    def stat(self, address: str) -> Stat | None:
        digest_of(address)
        with self._lock:
            blob = self._blobs.get(address)
        return None if blob is None else Stat(len(blob), None)

    def _drop(self, address: str) -> None:
        blob = self._blobs.pop(address, None)
        if blob is not None:
            self._bytes -= len(blob)
