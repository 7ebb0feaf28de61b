"""kcl.inspect.summary: the table of a process."""

import os

import pytest

import kcl
from kcl import option
from kcl.base import events
from kcl.cache import layers
from kcl.cache.faults import CacheWarning
from kcl.cache.key import Key


def rows(text):
    """Return the first line of cells, and the cells of the others by their first."""
    head, *lines = text.splitlines()
    return head.split(), {line.split()[0]: line.split() for line in lines}


class TestReport:
    def test_unused(self):
        head, lines = rows(kcl.report())
        assert " ".join(head) == "layer hits misses bypassed errors seconds saved bytes"
        assert lines["generator:"][1:] == lines["binary:"][1:] == ["not", "used"]
        assert not layers.opened()

    def test_counts(self, tmp_path):
        option.cache_dir(tmp_path / "here")
        layers.binary()
        events.emit(events.Event("binary", "axpy", "", "miss", "not in the cache", 1.5, 4096))
        events.emit(events.Event("binary", "axpy", "", "hit", "", 0.5, 4096, 2.25))
        lines = rows(kcl.report())[1]
        assert lines["binary"] == ["binary", "1", "1", "0", "0", "2.000", "2.250", "8192"]
        assert lines["binary:"][1].endswith("here/pyopencl/kcl-binary-v1")

    def test_width(self, tmp_path, monkeypatch):
        """A path below the home directory begins with ~, a long one leaves out its middle: 80 columns are enough."""
        option.cache_dir(tmp_path / "here")
        layers.binary()
        monkeypatch.setenv("HOME", str(tmp_path))
        assert rows(kcl.report())[1]["binary:"] == ["binary:", "~/here/pyopencl/kcl-binary-v1"]
        option.cache_dir(tmp_path / ("long" * 30))
        layers.binary()
        place = rows(kcl.report())[1]["binary:"][1]
        assert len(place) == 80 - len("binary: ")
        assert place.startswith("~/long")
        assert place.endswith("long/pyopencl/kcl-binary-v1")

    @pytest.mark.faults
    def test_refused(self, tmp_path):
        """A layer whose directory is refused names no file, since none is written: it is in memory only."""
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        option.cache_dir(tmp_path / "open")
        with pytest.warns(CacheWarning, match="others can write"):
            layers.binary().look_up("x-" + 64 * "0", Key([("source", "1")]))
        assert "binary: memory only" in kcl.report().splitlines()

    def test_off(self, monkeypatch):
        monkeypatch.setenv("KCL_NO_CACHE", "binary")
        layers.binary()
        assert "off: KCL_NO_CACHE=binary" in kcl.report()
        monkeypatch.setenv("LOOPY_NO_CACHE", "1")
        name = os.path.basename(layers.generator().place)[-20:]
        said = " ".join(kcl.report().split())
        assert f"{name} (off for loopy recipes: LOOPY_NO_CACHE=1)" in said
