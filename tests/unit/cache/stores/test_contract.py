"""kcl.cache.stores.contract: the contract finds a store that breaks it."""

import pytest

from kcl.cache.stores.contract import StoreContract
from kcl.cache.stores.memory import Memory


class Forgets(Memory):
    """A store that keeps nothing."""

    def put(self, place, blob):
        """Keep nothing."""


class NeverDeletes(Memory):
    """A store that keeps everything."""

    def delete(self, place):
        """Delete nothing."""


@pytest.mark.parametrize("broken", [Forgets, NeverDeletes])
def test_broken_store(broken):
    """A store that forgets, or does not delete, passes not every test of the contract."""
    tests = [name for name in dir(StoreContract) if name.startswith("test_")]
    failed = []
    for name in tests:
        contract = StoreContract()
        try:
            getattr(contract, name)(broken(1 << 20))
        except AssertionError:
            failed.append(name)
        except TypeError:
            continue  # it takes more than a store
    assert failed
