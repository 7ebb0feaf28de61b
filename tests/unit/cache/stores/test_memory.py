"""kcl.cache.stores.base and kcl.cache.stores.memory: addresses, and the bounded store in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl.cache.stores.base import Store, address, digest_of
from kcl.cache.stores.contract import StoreContract, example
from kcl.cache.stores.memory import Memory

DIGEST = "0123456789abcdef" * 4


class TestAddress:
    def test_plain(self) -> None:
        """Without folder and label the address is the digest."""
        assert address(DIGEST) == DIGEST

    def test_readable(self) -> None:
        """Folder and label stay readable."""
        assert address(DIGEST, "pocl-cpu_3.0+rc2", "axpy") == f"pocl-cpu_3.0+rc2/axpy-{DIGEST}"

    @given(st.text(max_size=300), st.text(max_size=300))
    def test_safe(self, folder: str, label: str) -> None:
        """Any folder and label give a short relative path of plain characters that leads nowhere else."""
        made = address(DIGEST, folder, label)
        assert digest_of(made) == DIGEST
        assert made.isascii()
        assert made.count("/") <= 1
        assert all(part and part[0] != "." and len(part) <= 160 for part in made.split("/"))

    @pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "../" + "0" * 64])
    def test_malformed_digest(self, digest: str) -> None:
        """What is not a digest makes no address."""
        with pytest.raises(ValueError, match="not the address"):
            address(digest)

    @pytest.mark.parametrize(
        "place", [f"../{DIGEST}", f".hidden/{DIGEST}", f"/{DIGEST}", f"a/b/{DIGEST}", f"a\0/{DIGEST}", f"{DIGEST}.tmp"]
    )
    def test_malformed_address(self, place: str) -> None:
        """A path that `address` would not make has no digest."""
        with pytest.raises(ValueError, match="not the address"):
            digest_of(place)


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
