"""kcl.cache.stores.memory: the bounded store of entries in memory."""

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores.memory import Memory, SizedEntry

ENTRY = Entry(Key([]), {}, {})


def test_oldest_goes_first():
    """Above the limit the entry that was put first is dropped."""
    store = Memory(limit_bytes=30)
    for number in "123":
        store.put(number, SizedEntry(ENTRY, 10))
    assert store.get("1") == (ENTRY, 10)
    store.put("4", SizedEntry(ENTRY, 10))
    assert list(store.scan()) == ["2", "3", "4"]


def test_replacing_does_not_count_twice():
    """A replaced entry gives its bytes back."""
    store = Memory(limit_bytes=25)
    store.put("1", SizedEntry(ENTRY, 10))
    for _ in range(5):
        store.put("2", SizedEntry(ENTRY, 15))
    assert list(store.scan()) == ["1", "2"]


def test_above_the_limit_is_not_kept():
    """An entry larger than the whole store is not kept, nor is the one that it was to replace."""
    store = Memory(limit_bytes=10)
    store.put("1", SizedEntry(ENTRY, 5))
    store.put("2", SizedEntry(ENTRY, 5))
    store.put("1", SizedEntry(ENTRY, 11))
    assert list(store.scan()) == ["2"]
