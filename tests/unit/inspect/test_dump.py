"""kcl.inspect.dump: every stage of a kernel as a file."""

import os
import stat
import sys

import numpy as np
import pyopencl as cl
import pytest
from elementwise import one_array

import kcl
from kcl.base import process
from kcl.cache.faults import CacheWarning
from kcl.inspect import dump

ENTRY = {"build.log", "invoker.py", "key.json", "options.txt", "rebuild.py", "source.cl"}
STAGES = {"scheduled.txt", "unit.txt"}


@kcl.kernel
def doubled():
    import loopy as lp

    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="doubled", lang_version=(2018, 2))
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


@kcl.kernel
def halved():
    return one_array("halved", "x[i] /= 2;")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("KCL_DUMP", str(tmp_path / "dump"))
    process.reset()
    return tmp_path / "dump"


def launch(queue):
    _event, (y,) = doubled()(queue, x=np.arange(4, dtype=np.float32))
    _event, (x,) = halved()(queue, x=np.ones(4, np.float32))
    return y.tolist() == [0, 2, 4, 6] and x.tolist() == [0.5] * 4


def folder(place, kernel):
    (found,) = place.glob(f"*/{kernel}/*")
    return found


class TestStages:
    def test_miss(self, queue, place):
        """A run that makes a kernel writes the unit as it was returned and as it was scheduled."""
        assert launch(queue)
        found = folder(place, "doubled")
        assert {*os.listdir(found)} >= ENTRY | STAGES
        assert "16" in (found / "unit.txt").read_text()
        assert "LINEARIZATION" in (found / "scheduled.txt").read_text()
        assert "\x1b" not in (found / "scheduled.txt").read_text()
        assert "doubled" in (found / "source.cl").read_text()
        assert stat.S_IMODE(found.stat().st_mode) == 0o700
        # OpenCL C has no unit.
        names = {*os.listdir(folder(place, "halved"))}
        assert names >= ENTRY
        assert not names & STAGES

    def test_hit(self, queue, tmp_path, monkeypatch, platform_name):
        """On a hit loopy generates for it; the look-up is a hit all the same, and the binary is there."""
        assert launch(queue)
        kcl.flush()
        monkeypatch.setenv("KCL_DUMP", str(tmp_path / "dump"))
        process.reset()
        assert launch(cl.CommandQueue(queue.context))
        assert {row["misses"] for row in kcl.stats().values() if "misses" in row} == {0}
        names = {*os.listdir(folder(tmp_path / "dump", "doubled"))}
        assert names >= ENTRY | STAGES | {"program.bin"}
        if platform_name == "pocl":
            assert "program.bc" in names
            assert any(name.startswith("doubled-16-1-1") and name.endswith(".so") for name in names)


class TestFaults:
    def test_cannot_be_written(self, queue, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("KCL_DUMP", str(tmp_path / "file" / "dump"))
        process.reset()
        with pytest.warns(CacheWarning, match="goes on without KCL_DUMP") as warned:
            assert launch(queue)
        assert sum("KCL_DUMP" in str(one.message) for one in warned) == 1

    def test_written_whole(self, tmp_path):
        """A folder that is there stays as it is, and a fault leaves nothing behind."""
        assert dump.write(str(tmp_path / "one"), {"a": b"1"})
        assert not dump.write(str(tmp_path / "one"), {"a": b"2"})
        assert (tmp_path / "one" / "a").read_bytes() == b"1"
        with pytest.raises(OSError):
            dump.write(str(tmp_path / "two"), {"no/folder": b"1"})
        assert os.listdir(tmp_path) == ["one"]

    def test_unset(self, child):
        imports = "import sys, kcl, kcl.handle, kcl.generate.stage, kcl.programs.stage"
        code = f"{imports}; print('kcl.inspect.dump' in sys.modules)"
        assert child.run(code).stdout.strip() == "False"
        assert "kcl.inspect.dump" in sys.modules
