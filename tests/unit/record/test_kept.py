"""kcl.record.kept: what a run has read off code is kept for the next one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import reading
from reading import SOURCE, compiled, count, told

from kcl import option
from kcl.cache.entry import Entry
from kcl.record import kept as history
from kcl.record.callables import readings


def paths():
    """Return the paths of what is kept."""
    folder = os.path.join(option.folder("kcl"), "readings")
    return sorted(item.path for item in os.scandir(folder)) if os.path.isdir(folder) else []


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """No reading is remembered."""
    reading.clear(monkeypatch)


def forget():
    """Forget what this process has read, as the next one does not know it, and read what is kept."""
    for memo in (readings.now, readings._places, readings._references):
        memo.clear()
    history._state().on_change()
    history.load()


class TestKept:
    def test_next_run(self, monkeypatch):
        """What one process read the next one does not read."""
        one, another = compiled(), compiled(file="moved.py")
        history.load()
        expected = readings.digest(one), told(readings.references(one))
        history.write()
        assert len(paths()) == 1
        forget()
        read = count(monkeypatch)
        assert (readings.digest(one), told(readings.references(one))) == expected
        assert readings.digest(another) == expected[0]
        assert any(reference.code is another for reference in readings.references(another).chains)
        assert read == []

    def test_lines(self, monkeypatch):
        """A reference that was kept names the line where the code stands now."""
        history.load()
        lines = [reference.line for reference in readings.references(compiled()).chains]
        history.write()
        forget()
        read = count(monkeypatch)
        found = readings.references(compiled("\n\n" + SOURCE)).chains
        assert [reference.line for reference in found] == [line + 2 for line in lines]
        assert read == []

    def test_hash_seed(self, child):
        """Another hash seed, which changes the order of constant sets, is no other code."""
        script = """
        from kcl.record.callables import readings

        def recipe(a):
            return a in {"x", "y", "z", 1, 2.5}, [b for b in a if b in {"p", "q", "r"}]

        print(readings._place("digest", recipe.__code__))
        """
        places = {child.run(script, PYTHONHASHSEED=str(seed)).stdout for seed in range(1, 5)}
        assert len(places) == 1
        assert len(places.pop()) == len("digest ") + 65

    def test_nothing_new(self):
        """A process that reads nothing new writes nothing."""
        history.load()
        readings.digest(compiled())
        history.write()
        (path,) = paths()
        before = os.stat(path)
        history.write()
        forget()
        readings.digest(compiled())
        history.write()
        assert (os.stat(path).st_ino, os.stat(path).st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_before_load(self):
        """A process that looked nothing up writes nothing."""
        readings.digest(compiled())
        history._state().on_change()
        history.write()
        assert paths() == []

    @pytest.mark.parametrize("what", ["driver_name", "_version"])
    def test_others(self, monkeypatch, what):
        """Another driver, and another state of kcl's own code, have readings of their own."""
        history.load()
        readings.digest(compiled())
        history.write()
        monkeypatch.setattr(history, what, lambda: "another")
        forget()
        assert readings.before == {}
        readings.digest(compiled())
        history.write()
        assert len(paths()) == 2

    def test_other_python(self, monkeypatch):
        """Another Python reads by itself."""
        history.load()
        readings.digest(compiled())
        history.write()
        monkeypatch.setattr(sys, "version", "4.0.0")
        forget()
        assert readings.before == {}

    def test_version(self, monkeypatch, tmp_path):
        """A change of kcl's modules that read code is another version; without files it is that of kcl."""
        version = history._version()
        assert all(name in version for name in history._MODULES)
        for name in history._MODULES:
            (tmp_path / f"{name}.py").write_text("")
        monkeypatch.setattr(readings, "__file__", str(tmp_path / "readings.py"))
        changed = {history._version()}
        for name in history._MODULES:
            (tmp_path / f"{name}.py").write_text("# changed")
            changed.add(history._version())
            os.utime(tmp_path / f"{name}.py", (1e9, 1e9))
            changed.add(history._version())
        assert len(changed) == 1 + 2 * len(history._MODULES)
        monkeypatch.setattr(readings, "__file__", str(tmp_path / "nowhere" / "readings.py"))
        assert history._version() == version.split(",")[0]

    def test_all_that_read(self):
        """The modules in the key are all of kcl's own that reading imports."""
        script = """
import sys
from kcl.record.callables import distributions, readings
def recipe(): return sys.argv
assert readings.references(recipe.__code__).chains and readings.digest(recipe.__code__)
assert distributions.owner("numpy").kind == "distribution" and distributions.identity("numpy")
print(*(name for name in sys.modules if name.startswith("kcl.")))
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        below = {"kcl.record", "kcl.record.callables", "kcl.base"}
        below |= {"kcl.base.process", "kcl.base.settings"}
        assert set(done.stdout.split()) - below <= {f"kcl.record.callables.{name}" for name in history._MODULES}

    @pytest.mark.parametrize("content", [b"", b"not an entry", b"kclentry" + b"\0" * 100])
    def test_damaged(self, content):
        """What cannot be read is passed over, and written anew."""
        history.load()
        expected = readings.digest(compiled())
        history.write()
        (path,) = paths()
        with open(path, "wb") as stream:
            stream.write(content)
        forget()
        assert readings.before == {}
        assert readings.digest(compiled()) == expected
        history.write()
        forget()
        assert readings.before

    @pytest.mark.parametrize("found", [None, [], "text", {}, 5, ["ab"], [[[], 1]]])
    def test_wrong(self, found):
        """What is not of the shape that is written is of no use, and no harm."""
        history.load()
        expected = readings.digest(compiled()), told(readings.references(one := compiled()))
        history.write()
        (path,) = paths()
        with open(path, "rb") as stream:
            entry = Entry.unpack(stream.read())
        for left in (found, [[place, found] for place, _found in entry.metadata["readings"]]):
            with open(path, "wb") as stream:
                stream.write(Entry(entry.key, {"readings": left}, {}).pack())
            forget()
            if found != "text":  # which could be a digest
                assert readings.digest(compiled()) == expected[0]
            assert told(readings.references(one)) == expected[1]

    @pytest.mark.parametrize(
        "kept",
        [
            [[["x"]], [], []],
            [[[0, "x", 0, [], [99], 0]], [], []],
            [[[0, "x", 0, [], [0], 0]], [], []],
            [[[0, "x", 0, [], [0, 0], 0]], [], []],
            [[[0, "x", 0, [], None, 0]], [], []],
            [[[0, "x", 0, 5, [], 0]], [], []],
            [[], 5, []],
            [[], [[]], []],
            [[], []],
        ],
    )
    def test_wrong_references(self, kept):
        """References that are not of the shape that is written are read anew."""
        assert readings._restored(compiled(), kept) is None

    def test_few_idle(self, monkeypatch):
        """Of readings that a run had no use for few are kept, the last ones."""
        monkeypatch.setattr(history, "_FEW", 3)
        history.load()
        for number in range(10):
            readings.text("kind", str(number).encode(), lambda _content: "text")
        history.write()
        first = list(readings.now)
        forget()
        assert list(readings.before) == first
        readings.text("kind", b"another", lambda _content: "text")
        history.write()
        forget()
        assert list(readings.before)[:-1] == first[-4:]

    def test_another_directory(self, tmp_path):
        """After `kcl.option.cache_dir` they are read and written there."""
        history.load()
        readings.digest(compiled())
        option.cache_dir(str(tmp_path / "other"))
        history.write()
        assert paths() == []
        history.load()
        history.write()
        (path,) = paths()
        assert path.startswith(str(tmp_path / "other"))

    def test_not_ours_to_touch(self, monkeypatch):
        """Readings whose time cannot be set, as on a read-only file system, are used all the same."""
        history.load()
        readings.digest(compiled())
        history.write()
        (path,) = paths()
        os.utime(path, (1e9, 1e9))

        def refuse(*_arguments):
            raise PermissionError("read-only")

        monkeypatch.setattr(os, "utime", refuse)
        forget()
        assert readings.before

    def test_off(self, child):
        """Where both layers are off for all recipes of a driver nothing of kcl is written."""
        script = """
        import numpy as np
        import pyopencl as cl
        import kcl

        @kcl.kernel(pure=True)
        def twice():
            import loopy as lp
            return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))

        context = cl.create_some_context(interactive=False)
        queue = cl.CommandQueue(context)
        _event, (y,) = twice()(queue, x=np.arange(4.0))
        print(y.sum())
        """
        done = child.run(script, LOOPY_NO_CACHE="1", KCL_NO_CACHE="binary")
        assert (done.returncode, done.stdout) == (0, "12.0\n"), done.stderr
        assert [path for path in child.cache.rglob("*") if "kcl" in str(path.relative_to(child.cache))] == []

    def test_unwritable(self):
        """Where nothing can be read or written nothing is raised."""
        os.makedirs(option.folder("kcl"), mode=0o700)
        with open(os.path.join(option.folder("kcl"), "readings"), "w") as stream:
            stream.write("in the way")
        history.load()
        readings.digest(compiled())
        history.write()
        assert readings.before  # for this process
