"""No needless miss: what cannot change a recipe's outcome is changed, and every layer hits in a whole process.

Compilation and loopy are forbidden in these processes, and anything but a hit raises. The numbers are those of before.
"""

import os
import shutil
import zipfile

import packages
import pytest
from harness import ROOT, SUPPORT
from project import NUMBERS

SURROUNDINGS = {
    "LC_ALL": "C",
    "LANG": "de_DE.UTF-8",
    "TZ": "Asia/Tokyo",
    "TMPDIR": "/var/tmp",
    **dict.fromkeys(("USER", "LOGNAME", "USERNAME"), "somebody"),
    "PYTHONHASHSEED": "12345",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "POCL_MAX_PTHREAD_COUNT": "1",
    "POCL_MEMORY_LIMIT": "2",
    "KCL_REPORT": "1",
    "KCL_PROMOTE": "off",
    "UNRELATED": "1",
    "EDITOR": "ed",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "COLUMNS": "60",
}
# Executes what stands behind it without two of the standard streams, and under another umask.
POORLY = """
import os, sys
os.close(0)
os.close(2)
os.umask(0o077)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
NOTEBOOK = '''
import json, linecache, os, sys
import numpy as np
from opened import queue_on
if os.environ.get("DRIVER_FORBIDS"):
    import forbid
    forbid.compilation()
    forbid.loopy()

CELL = """
import kcl, factors

SHIFT = 4

def helper(n):
    return n + SHIFT

@kcl.kernel
def celled(n=3):
    return factors.scaled("celled", helper(n))
"""
queue = queue_on(sys.argv[1])
numbers, scope = {}, sys.modules["__main__"].__dict__
for number in range(2):
    name = f"/nowhere/ipykernel_{os.getpid()}/{number}.py"
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(True), name)
    exec(compile(CELL, name, "exec"), scope)
    _event, (y,) = scope["celled"]()(queue, x=np.arange(1, 101, dtype=np.float32))
    numbers[number] = float(y.sum())
print(json.dumps({"numbers": numbers}))
'''


class TestSurroundings:
    @pytest.mark.slow_platforms
    def test_environment(self, warm, tmp_path):
        """What the environment says of other things, another home, and a package that nobody reaches do not count."""
        home, site = tmp_path / "another", tmp_path / "site-packages"
        home.mkdir()
        site.mkdir()
        (site / "thing.py").write_text("X = 1\n")
        packages.describe(site, "thing")
        path = os.pathsep.join(map(str, (ROOT, SUPPORT, site)))
        more = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "PYTHONPATH": path}
        assert warm.run(warm=True, **SURROUNDINGS, **more).numbers == NUMBERS

    @pytest.mark.slow_platforms
    def test_streams_and_umask(self, warm):
        run = warm.run(warm=True, command=("-c", POORLY, str(warm.folder / "driver.py")))
        assert run.numbers == NUMBERS

    @pytest.mark.slow_platforms
    @pytest.mark.parametrize(("size", "queue"), [("int", "1"), ("int32", "2")])
    def test_launches(self, warm, size, queue):
        """Sizes and outputs that are given, a context made in another way, and a queue of another kind."""
        given = {"DRIVER_N": size, "DRIVER_OUT": "1", "DRIVER_CONTEXT": "1", "DRIVER_QUEUE": queue}
        assert warm.run(warm=True, **given).numbers == NUMBERS

    def test_index_of_the_device(self, warm, platform_name):
        if platform_name != "pocl":
            pytest.skip("PoCL alone can be asked for two devices")
        others = {"POCL_DEVICES": "basic pthread", "DRIVER_DEVICE": "pthread"}
        assert warm.run(warm=True, **others).numbers == NUMBERS


@pytest.mark.slow_platforms
class TestInterpreter:
    def test_optimised(self, warm):
        """`python -O` is no noise: it may miss, once, and the numbers are the same."""
        first = warm.run("inputs", options=("-O",)).numbers
        warm.finish()
        assert warm.run("inputs", warm=True, options=("-O",)).numbers == first
        assert first.items() <= NUMBERS.items()

    def test_options_and_bytecode(self, warm):
        """Other options, compiled files that are stale or gone, and files with another time."""
        options = ("-X", "utf8", "-s", "-W", "ignore", "-u")
        assert warm.run(warm=True, options=options).numbers == NUMBERS
        for path in warm.folder.rglob("*.pyc"):
            path.write_bytes(path.read_bytes()[:12] + bytes(4))
        for path in warm.folder.rglob("*"):
            os.utime(path, (10**9, 10**9))
        assert warm.run(warm=True, options=("-B",)).numbers == NUMBERS
        for folder in [*warm.folder.rglob("__pycache__")]:
            shutil.rmtree(folder)
        assert warm.run(warm=True).numbers == NUMBERS


@pytest.mark.slow_platforms
class TestPlace:
    def test_as_a_module(self, warm):
        assert warm.run(warm=True, command=("-m", "driver")).numbers == NUMBERS

    def test_archive(self, warm, tmp_path):
        """Imported out of a zip file, where nothing can be read beside the code."""
        with zipfile.ZipFile(tmp_path / "project.zip", "w") as stream:
            for path in warm.folder.rglob("*.py"):
                stream.write(path, path.relative_to(warm.folder))
        shutil.rmtree(warm.folder)
        code = "import sys, driver; driver.main(*sys.argv[1:])"
        path = os.pathsep.join(map(str, (tmp_path / "project.zip", ROOT, SUPPORT)))
        run = warm.run("pair", warm=True, command=("-c", code), cwd=tmp_path, PYTHONPATH=path)
        assert run.numbers == {name: NUMBERS[name] for name in ("typed", "control")}

    @pytest.mark.slow
    def test_cell(self, warm):
        """A notebook's cell that is run again unchanged, under another file name, twice in each process."""
        cell = warm.folder / "cell.py"
        cell.write_text(NOTEBOOK)
        numbers = warm.run(command=(str(cell),)).numbers
        warm.finish()
        more = "    # more\n    return (n +\n        SHIFT)"
        for text in (NOTEBOOK, NOTEBOOK.replace("    return n + SHIFT", more)):
            cell.write_text(text)
            assert warm.run(warm=True, command=(str(cell),)).numbers == numbers
