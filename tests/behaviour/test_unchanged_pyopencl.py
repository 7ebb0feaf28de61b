"""Programs of pyopencl under `kcl.install()`: switches, inputs and threads. What they say: truth/families."""

import pytest
from harness import PLATFORMS

from kcl.drivers.pocl import client

pytestmark = pytest.mark.slow_platforms

# The platform is the first argument.
START = """
import sys, warnings, json, numpy as np, pyopencl as cl, kcl
kcl.install()
from beside_driver import launched
from opened import queue_on
queue = queue_on(sys.argv[1])
context, looks = queue.context, []
kcl.add_hook(lambda event: looks.append(event.outcome) if event.layer == "binary" else None)
ADD = "kernel void add(global int *out) { out[get_global_id(0)] += N; }"
"""
ADDED = """
found = launched(queue, cl.Program(context, ADD).build("-DN=3").add)
kcl.flush()
"""
UNINSTALLED = """
before = cl.Program(context, ADD).build("-DN=3")
kcl.uninstall()
after = cl.Program(context, ADD).build("-DN=4")
found = [launched(queue, one.add) for one in (before, after)], before.kernel_names
"""
NAMED = """
text = "kernel void add(global int *out) { if (out[0] > 9) printf(__FILE__); }"
program = cl.Program(context, text).build()
found = [program.source == text, launched(queue, program.add)]
"""
THREADS = """
import threading
programs = [cl.Program(context, ADD) for _ in range(8)]
threads = [threading.Thread(target=one.build, args=("-DN=7",)) for one in programs]
[one.start() for one in threads]; [one.join() for one in threads]
found = [launched(queue, one.add) for one in programs]
"""


@pytest.fixture
def run(child, platform_name):
    """Return what runs a text and returns what it found, and the outcomes of its look-ups."""

    def run(text, **variables):
        code = f"{START}{text}print(json.dumps([found, looks]))"
        said = child.json(code, PLATFORMS[platform_name], **variables)
        assert client.idle(str(child.cache / "kcl"), 120)
        return said

    return run


@pytest.mark.one_platform
@pytest.mark.parametrize("variable", ["KCL_NO_CACHE", "PYOPENCL_NO_CACHE"])
def test_off(run, child, variable):
    """A program is built as without kcl where the binary layer is off."""
    assert run(ADDED, **{variable: "1"}) == [3, []]
    assert not list(child.cache.glob("pyopencl/kcl-binary-*/*/*"))


@pytest.mark.one_platform
def test_uninstalled(run):
    """After `kcl.uninstall` programs are pyopencl's; those that were built stay usable."""
    assert run(UNINSTALLED) == [[[3, 4], "add"], ["miss"]]


@pytest.mark.one_platform
def test_forced_options(run):
    """`PYOPENCL_BUILD_OPTIONS` is part of what a program is made of."""
    text = ADDED.replace('"-DN=3"', "")
    found = [run(text, PYOPENCL_BUILD_OPTIONS=f"-DN={number}") for number in (1, 2, 1)]
    assert found == [[1, ["miss"]], [2, ["miss"]], [1, ["hit"]]]


def test_name_of_the_file(run):
    """A program that asks for `__FILE__` is stored; its source is shown as it was given."""
    found = [run(NAMED) for _ in range(2)]
    assert found == [[[True, 0], [outcome]] for outcome in ("miss", "hit")]


@pytest.mark.faults
@pytest.mark.one_platform
def test_threads(run, child, platform_name):
    """Threads that build one program at once compile it once: on PoCL, whose binaries come later, by its cache."""
    found, outcomes = run(THREADS)
    assert found == [7] * 8
    if platform_name == "pocl":
        assert len(list(child.cache.glob("pocl/kcache/*/*/program.bc"))) == 1
    else:
        assert outcomes.count("miss") == 1
