"""kcl.cache.verified: no byte of a store is used that is not the entry of its address."""

from __future__ import annotations

import pytest

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores.base import address
from kcl.cache.verified import entry_at
from kcl.errors import DamagedEntry

KEY, OTHER = Key([("source", "1")]), Key([("source", "2")])
ENTRY = Entry(KEY, {"kernel": "add"}, {"binary": b"1234"})
PLACE = address(KEY.digest, "device", "add")


def test_entry():
    """The entry of an address is what was stored there."""
    assert entry_at(PLACE, ENTRY.pack()) == entry_at(PLACE, ENTRY.pack(), KEY) == ENTRY


def test_another_key():
    """An entry that lies at the address of another key is damaged, whichever key is asked for."""
    with pytest.raises(DamagedEntry, match="another key"):
        entry_at(address(OTHER.digest, "device", "add"), ENTRY.pack())
    with pytest.raises(DamagedEntry):
        entry_at(PLACE, ENTRY.pack(), OTHER)


def test_every_truncation():
    """Bytes that are cut off anywhere are damaged."""
    blob = ENTRY.pack()
    for length in range(len(blob)):
        with pytest.raises(DamagedEntry):
            entry_at(PLACE, blob[:length])
