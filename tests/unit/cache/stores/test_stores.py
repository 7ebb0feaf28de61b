"""kcl.cache.stores: addresses. The contract of stores is tests/support/store_contract.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl.cache.stores import address, digest_of

DIGEST = "0123456789abcdef" * 4


def test_readable():
    """Folder and label stay readable; without them the address is the digest."""
    assert address(DIGEST) == DIGEST
    assert address(DIGEST, "pocl-cpu_3.0+rc2", "axpy") == f"pocl-cpu_3.0+rc2/axpy-{DIGEST}"


@given(st.text(max_size=300), st.text(max_size=300))
def test_safe(folder, label):
    """Any folder and label give a short relative path of plain characters that leads nowhere else."""
    made = address(DIGEST, folder, label)
    assert digest_of(made) == DIGEST
    assert made.isascii()
    assert made.count("/") <= 1
    assert all(part and part[0] != "." and len(part) <= 160 for part in made.split("/"))


@pytest.mark.parametrize("digest", ["", "0" * 65, "G" * 64, "../" + "0" * 64])
def test_malformed_digest(digest):
    with pytest.raises(ValueError, match="not the address"):
        address(digest)


@pytest.mark.parametrize(
    "place",
    [
        *(f"{folder}/{DIGEST}" for folder in ("", "..", ".hidden", "a/b", "a\0")),
        f"{DIGEST}.tmp",
    ],
)
def test_a_path_that_address_would_not_make(place):
    with pytest.raises(ValueError, match="not the address"):
        digest_of(place)
