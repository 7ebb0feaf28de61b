"""Tools that people start their programs by, day for day: what a plain run has stored is found, and loopy stays out.

A tool that is not installed is skipped: `pip install --editable ".[daily]"` brings them all. What a tool runs has
KCL_STRICT=hit: it ends with an error unless all is found.
"""

import json
import shutil
import sys
import zipapp

import pytest
from harness import PLATFORMS, Child

from kcl.drivers.pocl import client

KERNELS = """
import sys

import kcl
import numpy as np
from opened import over_x, queue_on


@kcl.kernel
def filled(number=3):
    import loopy as lp

    text = f"x[i] = {number}"
    arguments = [lp.GlobalArg("x", np.float32, shape=4)]
    return lp.make_kernel("{[i]: 0<=i<4}", text, arguments, lang_version=(2018, 2))


@kcl.kernel
def doubled():
    return over_x("doubled", "*= 2")


def work(_number=0):
    queue = queue_on(PLATFORM)
    _event, (x,) = filled()(queue, out_host=True)
    doubled()(queue, x=x)
    return [float(x.sum()), "loopy" in sys.modules]
"""
DRIVER = """
def main():
    import json
    import kernels

    print(json.dumps(kernels.work()))

if __name__ == "__main__":
    main()
"""
DASK = """
import json

import dask
import kernels

if __name__ == "__main__":
    calls = [dask.delayed(kernels.work)(number) for number in range(2)]
    print(json.dumps(dask.compute(*calls, scheduler="processes", num_workers=2)))
"""
DISTRIBUTED = """
import json

import distributed
import kernels

if __name__ == "__main__":
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        calls = client.map(kernels.work, range(2), pure=False)
        print(json.dumps(client.gather(calls)))
"""
RAY = """
import json

import kernels
import ray

if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    work = ray.remote(kernels.work)
    print(json.dumps(ray.get([work.remote(number) for number in range(2)])))
"""
CELL = {"cell_type": "code", "id": "only", "metadata": {"tags": ["parameters"]}, "outputs": []}
CELL |= {"execution_count": None, "source": "import driver\ndriver.main()"}
SPEC = {"name": "python3", "display_name": "Python", "language": "python"}
NOTEBOOK = {"cells": [CELL], "metadata": {"kernelspec": SPEC}, "nbformat": 4, "nbformat_minor": 5}
MAKE = "all: one two\none two:\n\t@PYTHON driver.py\n"
RIGHT = [24.0, False]  # the sum, and that loopy was not imported
WORKERS = {"dask": DASK, "distributed": DISTRIBUTED, "ray": RAY}


@pytest.fixture(scope="module")
def filled(tmp_path_factory, platform_name):
    """Child processes with a driver whose first run has filled the cache."""
    child = Child(tmp_path_factory.mktemp("tools"))
    text = KERNELS.replace("PLATFORM", repr(PLATFORMS[platform_name]))
    (child.directory / "kernels.py").write_text(text)
    (child.directory / "driver.py").write_text(DRIVER)
    assert child.script("driver.py") == [24.0, True]
    assert client.idle(str(child.cache / "kcl"), 60.0)
    return child


def answers(child, *words, **given):
    """Run Python with these words from warm entries; return the lines that are JSON."""
    done = child.finished(*words, KCL_STRICT="hit", **given)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


@pytest.mark.slow_platforms
class TestTools:
    @pytest.mark.parametrize(
        "words",
        [
            ("-X", "dev"),
            ("-m", "pdb", "-c", "continue", "-c", "quit"),
            ("-m", "cProfile", "-o", "profile"),
            ("-m", "coverage", "run", "--branch"),
        ],
        ids=" ".join,
    )
    def test_python(self, filled, words):
        """The development mode of Python, its debugger, its profiler, and coverage."""
        if "coverage" in words:
            pytest.importorskip("coverage")
        assert answers(filled, *words, filled.directory / "driver.py", stdin="quit\n") == [RIGHT]

    def test_zipapp(self, filled, tmp_path):
        (tmp_path / "app").mkdir()
        shutil.copy(filled.directory / "kernels.py", tmp_path / "app")
        shutil.copy(filled.directory / "driver.py", tmp_path / "app" / "__main__.py")
        zipapp.create_archive(tmp_path / "app", tmp_path / "app.pyz")
        assert answers(filled, tmp_path / "app.pyz", cwd=tmp_path) == [RIGHT]

    def test_make(self, filled):
        (filled.directory / "Makefile").write_text(MAKE.replace("PYTHON", sys.executable))
        code = "import os; os.execvp('make', ['make', '-j', '2'])"
        assert answers(filled, "-c", code) == [RIGHT, RIGHT]

    @pytest.mark.slow
    @pytest.mark.parametrize("name", WORKERS)
    def test_workers(self, filled, name):
        pytest.importorskip(name)
        (filled.directory / f"{name}_driver.py").write_text(WORKERS[name])
        assert answers(filled, f"{name}_driver.py") == [[RIGHT, RIGHT]]

    @pytest.mark.slow
    def test_shiv(self, filled, tmp_path):
        """The modules lie in an archive of shiv, which unpacks it at the first start."""
        pytest.importorskip("shiv")
        packages = tmp_path / "packages"
        packages.mkdir()
        for name in ("driver.py", "kernels.py"):
            shutil.copy(filled.directory / name, packages)
        words = ("--site-packages", packages, "-e", "driver:main", "-o", tmp_path / "app.pyz")
        filled.finished("-m", "shiv.cli", *words)
        root = str(tmp_path / "root")
        for _time in range(2):
            assert answers(filled, tmp_path / "app.pyz", cwd=tmp_path, SHIV_ROOT=root) == [RIGHT]

    @pytest.mark.slow
    def test_papermill(self, filled, tmp_path):
        for name in ("papermill", "ipykernel"):
            pytest.importorskip(name)
        (filled.directory / "cells.ipynb").write_text(json.dumps(NOTEBOOK))
        assert answers(filled, "-m", "papermill", "cells.ipynb", tmp_path / "out.ipynb") == []
        (cell,) = json.loads((tmp_path / "out.ipynb").read_text())["cells"]
        assert [json.loads(one["text"][0]) for one in cell["outputs"]] == [RIGHT]
