"""`kcl gc`: what is above the bound goes."""

from __future__ import annotations

import os
import re
import time

import pytest
from click.testing import CliRunner

from kcl.cache import places
from kcl.cli import main
from kcl.inspect import inventory


def gc(*arguments):
    return CliRunner().invoke(main, ["gc", *arguments])


class TestGc:
    @pytest.mark.usefixtures("cache")
    def test_within(self):
        """Nothing goes where all fits."""
        done = gc()
        assert done.exit_code == 0
        assert "of at most 2.0 GB" in done.output
        assert "nothing to remove" in done.output
        assert "removed" not in done.output

    @pytest.mark.usefixtures("copy")
    def test_removes(self):
        """A dry run shows what would go; then it goes."""
        listed = len(list(inventory.summaries()))
        shown = gc("--max-size", "20K", "--dry-run")
        count = int(re.search(r"^(\d+) entr.* would be removed", shown.output, re.MULTILINE)[1])
        assert "nothing to remove" not in shown.output
        files = sum(len(names) for _place, _folders, names in os.walk(places.binaries()))
        assert files > 1
        done = gc("--max-size", "20K")
        assert done.exit_code == 0, done.output
        assert "are removed" in done.output
        assert len(list(inventory.summaries())) == listed - count
        assert sum(len(names) for _place, _folders, names in os.walk(places.binaries())) < files

    def test_wrong_size(self):
        """What is no size is refused."""
        done = gc("--max-size", "many")
        assert done.exit_code == 2
        assert "write 500M or 2G" in done.output

    @pytest.mark.usefixtures("cache")
    def test_no_bound(self, monkeypatch):
        """No bound, nothing to do."""
        monkeypatch.setenv("KCL_MAX_SIZE", "0")
        done = gc()
        assert "have no bound" in done.output
        assert "removed" not in done.output

    @pytest.mark.usefixtures("copy")
    def test_age(self):
        """Another age than that of the settings."""
        assert "would be removed" in gc("--max-age", "0.001s", "--dry-run").output
        assert "removed" not in gc("--max-age", "1d", "--dry-run").output
        assert gc("--max-age", "old").exit_code == 2

    def test_leftovers(self):
        """The stores of an earlier kcl go a week after their last change; status counts them, those of a later stay."""
        folders = [os.path.dirname(places.binaries()), places.dictionaries()]
        names = {
            "kcl-binary-v0": False,
            "kcl-binary-v9": True,
            "pdict-v4-kcl-generated-v1-3.9.1.sqlite": False,
            "pdict-v5-kcl-generated-v0-3.9.1.sqlite": False,
            "pdict-v5-kcl-generated-v9-3.9.1.sqlite": True,
            "kcl-generated-v0": False,
        }
        for name in names:
            folder = folders["binary" not in name]
            os.makedirs(folder, mode=0o700, exist_ok=True)
            path = os.path.join(folder, name)
            if not name.endswith(".sqlite"):
                os.mkdir(path, 0o700)
                path = os.path.join(path, "entry")
            with open(path, "w") as stream:
                stream.write("x" * 1000)
        assert "stores of an earlier kcl take 4.0 kB" in CliRunner().invoke(main, ["status"]).output
        assert "earlier kcl" not in gc().output
        age(folders[0])
        age(folders[1])
        assert "4 stores of an earlier kcl with 4.0 kB would be removed" in gc("--dry-run").output
        assert "4 stores of an earlier kcl with 4.0 kB are removed" in gc().output
        assert {name for folder in folders for name in os.listdir(folder)} == {
            name for name, stays in names.items() if stays
        }


def age(folder, days=8):
    """Make all below a folder look as if it was written so many days ago."""
    for place, folders, names in os.walk(folder):
        for name in folders + names:
            os.utime(os.path.join(place, name), (time.time() - 86400 * days,) * 2, follow_symlinks=False)


@pytest.fixture
def kcache(copy, platform_name, monkeypatch):
    """The folder of PoCL's own cache in a copy of the caches."""
    if platform_name != "pocl":
        pytest.skip("only PoCL has such a cache")
    folder = copy.child.cache / "pocl" / "kcache"
    monkeypatch.setenv("POCL_CACHE_DIR", str(folder))
    age(folder)
    return folder


def programs(folder):
    """Return the folders of the programs in PoCL's own cache."""
    return sorted(path.parent for path in folder.glob("*/*/program.bc"))


class TestPocl:
    def test_removes(self, kcache, copy):
        """What entries hold goes from PoCL's own cache when it is asked for; the next run hits, and writes it again."""
        count = len(programs(kcache))
        assert count > 1
        gc()
        assert f"{count} programs in PoCL's own cache" in gc("--with", "pocl", "--dry-run").output
        assert len(programs(kcache)) == count
        done = gc("--with", "pocl")
        assert (done.exit_code, "are removed" in done.output) == (0, True)
        assert list(kcache.glob("*/*")) == []
        copy.run(warm=True)
        assert "programs" not in gc("--with", "pocl").output  # built a moment ago

    def test_keeps(self, kcache, tmp_path):
        """A program stays that was built lately, that no entry holds whole, or that is a link."""
        lately, more, linked, damaged, *others = programs(kcache)
        os.utime(lately / "last_accessed")
        (more / "kernel" / "7-1-1").mkdir(parents=True)
        (more / "kernel" / "7-1-1" / "kernel.so").touch()
        os.utime(more / "kernel" / "7-1-1" / "kernel.so", (1, 1))
        elsewhere = tmp_path / "elsewhere"
        linked.rename(elsewhere)
        linked.symlink_to(elsewhere)
        kept = kcache / "AB" / ("C" * 37)
        kept.mkdir(parents=True)
        for path in places_of(damaged):
            with open(path, "r+b") as stream:
                stream.seek(-1, os.SEEK_END)
                last = stream.read()[0]
                stream.seek(-1, os.SEEK_END)
                stream.write(bytes([last ^ 1]))
        assert gc("--with", "pocl").exit_code == 0
        assert programs(kcache) == [lately, more, linked, damaged]
        assert (elsewhere / "program.bc").exists()
        assert kept.exists()
        assert not any(path.exists() for path in others)

    def test_is_used(self, kcache, copy):
        """A process that has loaded a program goes on when it goes, with another local size too."""
        code = SIZES.replace("CACHE", repr(str(kcache)))
        assert copy.child.json(code, PYOPENCL_CTX="portable", POCL_CACHE_DIR=str(kcache)) > 0


def places_of(program):
    """Return the files of the entries of a program in PoCL's own cache."""
    for one in inventory.entries("binary"):
        if one.metadata["place"] == f"{program.parent.name}/{program.name}":
            yield os.path.join(places.binaries(), one.address)


SIZES = """
    import json, os, time
    import numpy as np
    import pyopencl as cl
    import kcl
    from click.testing import CliRunner
    from kcl.cli import main

    @kcl.kernel
    def twice():
        return kcl.Source(
            "__kernel void twice(__global float *x, int n, int w) { x[get_global_id(0)] *= 2; }",
            entry="twice",
            arguments=[kcl.Array("x", np.float32, "(n,)", "inout"), *(kcl.Scalar(name, np.int32) for name in "nw")],
            global_size="(n,)",
            local_size="(w,)",
        )

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)

    def launch(size):
        event, (x,) = twice()(queue, x=np.ones(64, np.float32), w=np.int32(size))
        assert (x == 2).all()

    launch(16)
    kcl.flush()
    for place, folders, names in os.walk(CACHE):
        for name in names:
            os.utime(os.path.join(place, name), (1, 1))
    done = CliRunner().invoke(main, ["gc", "--with", "pocl"])
    assert done.exit_code == 0 and "are removed" in done.output, done.output
    for size in (16, 32, 64):
        launch(size)
    print(json.dumps(len(done.output)))
"""
