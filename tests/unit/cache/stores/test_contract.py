"""The contract of stores finds a store that breaks it."""

import pytest
from store_contract import StoreContract

from kcl.cache.stores.directory import Directory


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
