"""Tests of kcl.generate.run: a recipe is run once, and what it imports does not read unseen."""

from __future__ import annotations

import os
import time

import pytest

from kcl.generate import run
from kcl.generate.origins.walked import reached
from kcl.generate.run import _touched_since
from kcl.record import manifest
from kcl.record.declarations import PURE, RecipeCall

DRIVER = """
import json, os, sys
import numpy as np
import pyopencl as cl
import kcl

CODE = "__kernel void fill(__global float *y, int n) {{ int i = get_global_id(0); if (i < n) y[i] = {}; }}"


@kcl.kernel(pure=True)
def fill():
    from late import VALUE

    return kcl.Source(
        CODE.format(VALUE),
        entry="fill",
        arguments=[kcl.Array("y", np.float32, "(n,)", "out"), kcl.Scalar("n", np.int32)],
        global_size="(n,)",
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
event, (y,) = fill()(queue, n=2, out_host=True)
print(json.dumps([float(y[0]), kcl.stats()["generator"]["hits"]]))
"""
READS = {
    "file": "import os\nVALUE = int(open(os.path.join(os.path.dirname(__file__), 'value.txt')).read())\n",
    "path": "import pathlib\nVALUE = int(pathlib.Path(__file__).with_name('value.txt').read_text())\n",
    "variable": "import os\nVALUE = int(os.environ['KCL_TEST_VALUE'])\n",
    "helper": "def read():\n    import os\n    return int(os.getenv('KCL_TEST_VALUE'))\nVALUE = read()\n",
}


class TestLateImports:
    @pytest.mark.parametrize("way", READS)
    @pytest.mark.slow_cases(4)
    def test_reading_module(self, child, way):
        """A module that reads something while a recipe imports it is no hit after a change of what it reads."""
        (child.directory / "late.py").write_text(READS[way])
        for value in (3, 4, 4):
            (child.directory / "value.txt").write_text(str(value))
            number, hits = child.json(DRIVER, KCL_TEST_VALUE=str(value), PYOPENCL_CTX="portable")
            assert number == value
        assert hits == 0

    def test_plain_module(self, child):
        """A module that reads nothing counts by its source."""
        for value, hits in ((3, 0), (3, 1), (4, 0)):
            (child.directory / "late.py").write_text(f"VALUE = {value}\n")
            # Python itself would take the compiled file for a source of the same second and size
            assert child.json(DRIVER, PYOPENCL_CTX="portable", PYTHONDONTWRITEBYTECODE="1") == [value, hits]


class TestOnce:
    def test_recipe_runs_once(self, child):
        """A recipe of which nobody can tell that it is loopy's runs once a miss, and sees each parameter once."""
        runs = child.json(
            """
            import json
            import numpy as np
            import pyopencl as cl
            import kcl

            ran = []

            @kcl.kernel(pure=True)
            def scaled(factors):
                import importlib

                ran.append(1)
                lp = importlib.import_module("loopy")
                return lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {next(factors)}*x[i]", lang_version=(2018, 2))

            context = cl.create_some_context(interactive=False)
            queue = cl.CommandQueue(context)
            event, (y,) = scaled(iter([2]))(queue, x=np.ones(3, dtype=np.float32))
            print(json.dumps([len(ran), float(y[0])]))
            """,
            PYOPENCL_CTX="portable",
        )
        assert runs == [1, 2.0]


class TestTouched:
    """Did what a recipe reads change while it ran? Times are set: the test waits for no clock."""

    BEGIN = time.time_ns()

    @pytest.fixture
    def folder(self, tmp_path):
        """A folder below one that was last changed before."""
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "read.txt").write_text("1")
        for path in (folder / "read.txt", folder, tmp_path):
            self.stamp(path, -1)
        return folder

    def stamp(self, path, seconds):
        """Let `path` be changed so long after the recipe began."""
        os.utime(path, ns=(self.BEGIN, self.BEGIN + seconds * 10**9))

    def test_file(self, folder):
        """A file that was written since did, one that was not did not."""
        assert not _touched_since(str(folder / "read.txt"), self.BEGIN)
        self.stamp(folder / "read.txt", 1)
        assert _touched_since(str(folder / "read.txt"), self.BEGIN)

    @pytest.mark.parametrize("name", ["absent.txt", "no/such/folder/absent.txt"])
    def test_absent(self, folder, name):
        """A file that was never there did not, unless something was taken out of the folder meanwhile."""
        assert not _touched_since(str(folder / name), self.BEGIN)
        self.stamp(folder, 1)
        assert _touched_since(str(folder / name), self.BEGIN)

    def test_unreadable(self, folder):
        """Where nobody can tell, it may have."""
        assert _touched_since(str(folder / "read.txt" / "inside"), self.BEGIN)


def _reading(path):
    with open(path) as stream:
        return stream.read()


class TestPlaces:
    def test_path_in_a_parameter(self, tmp_path):
        """A file whose path is a parameter is the one of that path, also for a copy of the project."""
        path = str(tmp_path / "data" / "weights")
        for arguments, base in (({"path": path}, "absolute"), ({"path": "weights"}, "module")):
            place = run.place_of(reached(RecipeCall("reading", _reading, arguments, PURE)))
            assert manifest.place(path, place.directory, place.written)[0] == base
