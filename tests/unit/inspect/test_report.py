"""kcl.inspect.report: the table of a process."""

from __future__ import annotations

import pytest

import kcl
from kcl import events, option
from kcl.cache import layers
from kcl.cache.key import Key
from kcl.cache.layer import CacheWarning
from kcl.inspect.report import table


def rows(text):
    """Return the first line of cells, and the cells of the others by their first."""
    head, *lines = text.splitlines()
    return head.split(), {line.split()[0]: line.split() for line in lines}


class TestTable:
    def test_columns(self):
        """Words stand to the left, numbers to the right, nothing is cut, and no line ends in blanks."""
        assert table(("layer", "hits", "files"), [("generator", "7", "/a b"), ("binary", "1234567", "/c")]) == [
            "layer         hits  files",
            "generator        7  /a b",
            "binary     1234567  /c",
        ]


class TestReport:
    def test_unused(self):
        """Layers that nobody used say so; asking opens nothing."""
        head, lines = rows(kcl.report())
        assert head == ["layer", "hits", "misses", "bypassed", "errors", "seconds", "bytes", "files"]
        assert lines["generator"][-2:] == lines["binary"][-2:] == ["not", "used"]
        assert not layers.opened()

    def test_counts(self, tmp_path):
        """Each layer has its counts, seconds, bytes and place."""
        option.cache_dir(tmp_path / "here")
        layers.binary()
        events.emit(events.Event("binary", "axpy", "", "miss", "not in the cache", 1.5, 4096))
        line = rows(kcl.report())[1]["binary"]
        assert line == ["binary", "0", "1", "0", "0", "1.500", "4096", str(tmp_path / "here/pyopencl/kcl-binary-v1")]

    def test_off(self, monkeypatch):
        """A layer that is off says which switch did it."""
        monkeypatch.setenv("KCL_NO_CACHE", "binary")
        layers.binary()
        assert "off: KCL_NO_CACHE=binary" in kcl.report()

    def test_refused(self, tmp_path):
        """A layer whose directory is refused names no file, since none is written: it is in memory only."""
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        option.cache_dir(tmp_path / "open")
        with pytest.warns(CacheWarning, match="others can write"):
            layers.binary().look_up("x-" + 64 * "0", Key([("source", "1")]))
        line = next(line for line in kcl.report().splitlines() if line.startswith("binary "))
        assert line.endswith("memory only")

    def test_off_for_some(self, monkeypatch):
        """A layer that is off for recipes of one front end says so beside its place."""
        monkeypatch.setenv("LOOPY_NO_CACHE", "1")
        text = layers.generator().place
        (line,) = [line for line in kcl.report().splitlines() if line.startswith("generator")]
        assert text in line
        assert "off for loopy recipes: LOOPY_NO_CACHE=1" in line


@pytest.mark.one_platform
class TestAtExit:
    def test_asked_for(self, project):
        """KCL_REPORT=1 prints the table on stderr at exit, whatever the driver is; without it there is nothing."""
        run = project.run("warned", KCL_REPORT="1")
        first = [
            line.split()[0] for line in run.stderr.splitlines() if line.startswith(("layer ", "generator", "binary"))
        ]
        assert first == ["layer", "generator", "binary"]
        assert str(project.child.cache) in run.stderr
        assert "generator" not in project.run("warned").stderr

    def test_loopy_imported(self, warm):
        """A driver that imports loopy though nothing is generated is told so."""
        warm.edit("driver.py", "import factors\n", "import loopy\nimport factors\n")
        run = warm.run("loopy", KCL_REPORT="1")
        assert run.set("generator") == {"hit"}
        assert "loopy was imported though nothing was generated" in run.stderr

    def test_closed_stream(self, project):
        """A closed stderr at exit is nobody's fault."""
        project.edit("driver.py", "    main(*sys.argv[1:])\n", "    main(*sys.argv[1:])\n    sys.stderr.close()\n")
        assert project.run("warned", KCL_REPORT="1").code == 0
