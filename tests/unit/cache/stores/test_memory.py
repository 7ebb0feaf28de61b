"""kcl.cache.stores.base and kcl.cache.stores.memory: addresses, and the bounded store in memory."""

from __future__ import annotations

from pathlib import Path

from kcl.cache.stores.base import Store
from kcl.cache.stores.contract import StoreContract, example
from kcl.cache.stores.memory import Memory


class TestMemory(StoreContract):
    def make(self, tmp_path: Path) -> Store:  # noqa: ARG002
        return Memory()

    def test_least_recently_used_goes_first(self) -> None:
        """Above the limit the blob that was not read for longest is dropped."""
        store = Memory(limit_bytes=30)
        for number in (1, 2, 3):
            store.put(example(number), bytes(10))
        store.get(example(1))
        store.put(example(4), bytes(10))
        assert set(store.scan()) == {example(1), example(3), example(4)}

    def test_replacing_does_not_count_twice(self) -> None:
        """A replaced blob gives its bytes back."""
        store = Memory(limit_bytes=25)
        store.put(example(1), bytes(10))
        for _ in range(5):
            store.put(example(2), bytes(15))
        assert set(store.scan()) == {example(1), example(2)}

    def test_above_the_limit_is_not_kept(self) -> None:
        """A blob larger than the whole store is not kept, nor is what it was to replace."""
        store = Memory(limit_bytes=10)
        store.put(example(1), b"small")
        store.put(example(2), b"small")
        store.put(example(1), bytes(11))
        assert list(store.scan()) == [example(2)]
