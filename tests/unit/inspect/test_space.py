"""kcl.inspect.space: entries keep within a bound, and what was used longest ago goes first."""

from __future__ import annotations

import os
import time

import pytest

from kcl import settings
from kcl.cache import layers, places
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import address
from kcl.inspect import space


def put(name, size, days_ago, layer="binary"):
    """Store an entry that was last used so many days ago; returns its address."""
    key = Key([Part("name", name)])
    metadata = {"kernel": name, "created": time.time() - 86400 * days_ago}
    if layer == "binary":
        where = address(key.digest, "device", name)
        layers.binary().publish(where, Entry(key, metadata, {"binary": os.urandom(size)}))
        path = os.path.join(places.binaries(), where)
        os.utime(path, (time.time() - 86400 * days_ago,) * 2)
    else:
        where = address(key.digest)
        parts = {"invoker.py": os.urandom(size)}
        layers.generator().publish(where, Entry(key, {**metadata, "function": "f"}, parts))
    return where


def there(layer="binary"):
    store = layers.binary().disk if layer == "binary" else layers.generator().disk
    return set(store.scan())


class TestChosen:
    def test_within(self):
        """Nothing goes where all fits."""
        put("a", 1000, 3)
        choice = space.chosen(10_000)
        assert (choice.entries, choice.size) == (0, 0)
        assert 1000 < choice.before < 2000

    def test_nothing_stored(self):
        """An empty cache takes no bytes, and none of it is made."""
        assert space.used() == 0
        assert space.chosen(1).entries == 0
        assert not os.path.exists(places.binaries())

    def test_oldest_first(self):
        """What was used longest ago goes, until a tenth of the bound is free."""
        where = {days: put(f"k{days}", 10_000, days) for days in (5, 1, 3, 2, 4)}
        choice = space.chosen(35_000)
        space.remove(choice)
        assert choice.refusals == []
        assert there() == {where[1], where[2]} or there() == {where[1], where[2], where[3]}
        assert space.used() <= 35_000

    def test_both_layers(self):
        """Rows of the generator layer count, and go by the time of their last use."""
        old = put("old", 30_000, 30, "generator")
        new = put("new", 30_000, 0, "generator")
        binary = put("binary", 30_000, 1)
        choice = space.chosen(80_000)
        space.remove(choice)
        assert there("generator") == {new}
        assert there() == {binary}
        assert old in choice.rows.addresses
        assert space.used() <= 80_000

    def test_read_only(self, monkeypatch):
        """What cannot be removed is told, and nothing is raised."""

        def refuse(_item):
            raise PermissionError("read-only")

        put("a", 10_000, 3)
        monkeypatch.setattr(space.removal, "remove", refuse)
        choice = space.chosen(1000)
        space.remove(choice)
        assert [refusal.reason for refusal in choice.refusals] == ["read-only"]


class TestKeepBound:
    def test_once_an_hour(self, monkeypatch):
        """A look takes place once an hour, whichever process."""
        monkeypatch.setenv("KCL_MAX_SIZE", "15000")
        os.makedirs(places.own(), 0o700)
        put("a", 10_000, 3)
        put("b", 10_000, 2)
        space.keep_bound()
        assert len(there()) == 1
        put("c", 10_000, 1)
        space.keep_bound()
        assert len(there()) == 2
        os.utime(places.own(places.SPACE), (time.time() - 4000,) * 2)
        space.keep_bound()
        assert len(there()) == 1

    def test_no_bound(self, monkeypatch):
        """0 is no bound."""
        monkeypatch.setenv("KCL_MAX_SIZE", "0")
        os.makedirs(places.own(), 0o700)
        put("a", 10_000, 3)
        space.keep_bound()
        assert len(there()) == 1
        assert not os.path.exists(places.own(places.SPACE))

    def test_at_exit(self, child):
        """A process in which something missed keeps the bound as it ends; one that hits looks at nothing."""
        code = """
            import sys, numpy as np, pyopencl as cl, kcl, os, json
            kcl.install()
            context = cl.create_some_context(interactive=False)
            for number in range(int(sys.argv[1])):
                cl.Program(context, f"__kernel void f(__global int *a) {{ a[0] = {number}; }}").build()
            kcl.flush()
            print(json.dumps(0))
        """
        child.json(code, "4", KCL_MAX_SIZE="1")
        files = list(child.cache.glob("pyopencl/kcl-binary-*/*/*"))
        assert files == []
        child.json(code, "1")
        stamp = child.cache / "kcl" / "space"
        os.utime(stamp, (time.time() - 4000,) * 2)
        before = stamp.stat().st_mtime
        child.json(code, "1", KCL_STRICT="hit")
        assert stamp.stat().st_mtime == before


class TestSetting:
    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("1000", 1000),
            ("2k", 2048),
            ("1.5M", 3 << 19),
            ("2GiB", 2 << 30),
            ("1 TB", 1 << 40),
            ("0", 0),
            ("", 2 << 30),
        ],
    )
    def test_understood(self, monkeypatch, text, size):
        """A number of bytes with a unit, or without."""
        monkeypatch.setenv("KCL_MAX_SIZE", text)
        assert settings.read().max_size == size
        assert settings.read().rejected == ()

    @pytest.mark.parametrize("text", ["many", "-1", "2X", "nan", "inf"])
    def test_rejected(self, monkeypatch, text):
        """Another text is named, and the default holds."""
        monkeypatch.setenv("KCL_MAX_SIZE", text)
        found = settings.read()
        assert found.max_size == 2 << 30
        assert "KCL_MAX_SIZE" in found.rejected[0]
