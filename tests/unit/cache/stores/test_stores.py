"""kcl.cache.stores: addresses, and the contract of stores, which finds a store that breaks it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_contract import StoreContract

from kcl.cache.stores import address, digest_of
from kcl.cache.stores.directory import Directory

DIGEST = "0123456789abcdef" * 4


class TestAddress:
    def test_readable(self) -> None:
        """Folder and label stay readable; without them the address is the digest."""
        assert address(DIGEST) == DIGEST
        assert address(DIGEST, "pocl-cpu_3.0+rc2", "axpy") == f"pocl-cpu_3.0+rc2/axpy-{DIGEST}"

    @given(st.text(max_size=300), st.text(max_size=300))
    def test_safe(self, folder: str, label: str) -> None:
        """Any folder and label give a short relative path of plain characters that leads nowhere else."""
        made = address(DIGEST, folder, label)
        assert digest_of(made) == DIGEST
        assert made.isascii()
        assert made.count("/") <= 1
        assert all(part and part[0] != "." and len(part) <= 160 for part in made.split("/"))

    @pytest.mark.parametrize(
        "digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "../" + "0" * 64]
    )
    def test_malformed_digest(self, digest: str) -> None:
        """What is not a digest makes no address."""
        with pytest.raises(ValueError, match="not the address"):
            address(digest)

    @pytest.mark.parametrize(
        "place",
        [
            f"../{DIGEST}",
            f".hidden/{DIGEST}",
            f"/{DIGEST}",
            f"a/b/{DIGEST}",
            f"a\0/{DIGEST}",
            f"{DIGEST}.tmp",
        ],
    )
    def test_malformed_address(self, place: str) -> None:
        """A path that `address` would not make has no digest."""
        with pytest.raises(ValueError, match="not the address"):
            digest_of(place)


class Forgets(Directory):
    """A store that keeps nothing."""

    def put(self, place, blob):
        """Keep nothing."""


class NeverDeletes(Directory):
    """A store that keeps everything."""

    def delete(self, place):
        """Delete nothing."""


@pytest.mark.parametrize("broken", [Forgets, NeverDeletes])
def test_broken_store(broken, tmp_path):
    """A store that forgets, or does not delete, passes not every test of the contract."""
    with pytest.raises(AssertionError):
        StoreContract().test_replace_and_delete(broken(tmp_path))
