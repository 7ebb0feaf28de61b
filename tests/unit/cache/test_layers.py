"""kcl.cache.layers: a layer's switches, its stores, and what comes of their faults."""

from __future__ import annotations

import os
import warnings

import pytest

import kcl
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.layer import CacheWarning
from kcl.cache.stores.base import address
from kcl.errors import CacheFault

KEY = Key([("source", "1")])
PLACE = address(KEY.digest, "device", "add")


def entry(**metadata):
    """Return a small entry."""
    return Entry(KEY, metadata, {"binary": b"1234"})


class TestLookUp:
    def test_published(self):
        """What is published is found, by a process that begins anew too."""
        assert layers.binary().look_up(PLACE, KEY)[:3] == (None, "miss", "not in the cache")
        layers.binary().publish(PLACE, entry(kernel="add"))
        for _ in range(2):
            found = layers.binary().look_up(PLACE, KEY)
            assert (found.entry, found.outcome) == (entry(kernel="add"), "hit")
            layers.reset()

    def test_deleted(self):
        """What is deleted is gone from memory and from the disk."""
        layers.binary().publish(PLACE, entry())
        layers.binary().delete(PLACE)
        assert layers.binary().look_up(PLACE, KEY).outcome == "miss"

    @pytest.mark.faults
    @pytest.mark.filterwarnings("ignore::kcl.cache.layer.CacheWarning")
    def test_damaged(self):
        """A damaged entry is set aside, is a miss, and is one no longer when it was made again."""
        layer = layers.binary()
        layer.publish(PLACE, entry())
        path = os.path.join(layer.place, PLACE)
        with open(path, "r+b") as stream:
            stream.seek(-1, os.SEEK_END)
            stream.write(b"X")
        layers.reset()
        assert layers.binary().look_up(PLACE, KEY).entry is None
        assert not os.path.exists(path)
        layers.binary().publish(PLACE, entry())
        assert layers.binary().look_up(PLACE, KEY).outcome == "hit"


class TestOff:
    @pytest.mark.parametrize(("value", "off"), [("binary", [True, False]), ("generator", [False, True]), ("1", [1, 1])])
    def test_by_name(self, monkeypatch, value, off):
        """`KCL_NO_CACHE` switches layers off by their names, or all of them, and is the reason."""
        monkeypatch.setenv("KCL_NO_CACHE", value)
        layers.reset()
        said = [layers.binary().off(), layers.generator().off()]
        assert [bool(one) for one in said] == [bool(one) for one in off]
        assert all("KCL_NO_CACHE" in one for one in said if one)

    def test_by_an_owner(self, monkeypatch):
        """loopy's switch switches kernels of loopy off, and leaves those of OpenCL C on."""
        monkeypatch.setenv("LOOPY_NO_CACHE", "1")
        layers.reset()
        assert "LOOPY_NO_CACHE" in layers.generator().off(frozenset({"loopy"}))
        assert layers.generator().off(frozenset({"opencl"})) == ""


SCALAR = [kcl.Scalar("n", "int32")]


class TestFaults:
    def unusable(self, tmp_path, monkeypatch):
        """Let the cache directory be a file."""
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        layers.reset()

    @pytest.mark.faults
    def test_is_a_miss(self, tmp_path, monkeypatch):
        """A store that fails is said once and is a miss; what was made here stays in memory."""
        self.unusable(tmp_path, monkeypatch)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert layers.binary().look_up(PLACE, KEY).entry is None
            for _ in range(3):
                layers.binary().publish(PLACE, entry())
        assert layers.binary().look_up(PLACE, KEY).entry == entry()
        assert len([one for one in said if one.category is CacheWarning]) <= 2

    @pytest.mark.faults
    def test_names_the_line_of_the_program(self, tmp_path, monkeypatch, queue):
        """The warning stands at the line that launched, and not in a file of kcl; one line has all of it."""

        @kcl.kernel
        def nothing():
            return kcl.Source("kernel void nothing(int n) {}", entry="nothing", arguments=SCALAR, global_size="(1,)")

        self.unusable(tmp_path, monkeypatch)
        with pytest.warns(CacheWarning) as said:
            nothing()(queue, n=1)
        ours = [one for one in said if one.category is CacheWarning]
        assert {one.filename for one in ours} == {__file__}
        assert not any("\n" in str(one.message) for one in ours)

    def test_strict(self, tmp_path, monkeypatch):
        """Under `KCL_STRICT=fault` it is raised."""
        monkeypatch.setenv("KCL_STRICT", "fault")
        self.unusable(tmp_path, monkeypatch)
        with pytest.raises(CacheFault):
            layers.binary().publish(PLACE, entry())
