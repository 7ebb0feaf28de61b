"""kcl.inspect.explain.misses: the last misses, with what explains them."""

from __future__ import annotations

import time

from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.inspect.explain import FIRST_TIME, Texts, misses
from kcl.inspect.explain.misses import in_words, shelves

OLD, NEW = Key([("source", "1"), ("option", "-DA=1")]), Key([("source", "1"), ("option", "-DA=2")])


def stored(key, created=1):
    """Publish a program of the kernel `add`."""
    layers.binary().publish(f"device/add-{key.digest}", Entry(key, {"kernel": "add", "created": created}, {}))


def shelf():
    """Return what lies in the binary layer of the kernel."""
    return shelves(["binary"], ["add"])["binary", "add"]


def test_nearest():
    """A miss is explained by the nearest entry that was there before."""
    stored(OLD)
    found = shelf().explain(NEW, Texts(), time.time(), time.time(), {})
    assert found.nearest.key == OLD
    assert f"nearest earlier entry: {OLD.digest[:12]}" in in_words(found)


def test_first_time():
    """Without an entry it is the first time; one that was made afterwards explains nothing."""
    assert shelf().explain(NEW, Texts(), time.time(), time.time(), {}) == FIRST_TIME
    stored(OLD, created=int(time.time()) + 100)
    assert shelf().explain(NEW, Texts(), time.time(), time.time(), {}) == FIRST_TIME
    assert in_words(FIRST_TIME) == ["first time seen"]


def test_now():
    """What would be missed now is explained in words."""
    stored(OLD)
    assert any(OLD.digest[:12] in line for line in misses.now("binary", "add", NEW, Texts()))
    assert misses.now("binary", "other", NEW, Texts()) == ["first time seen"]
