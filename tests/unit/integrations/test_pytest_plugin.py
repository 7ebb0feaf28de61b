"""kcl.integrations.pytest_plugin: a suite runs with the integrations where it is asked for."""

import pytest

SUITE = """
import os, sys
def test_where():
    import pyopencl as cl
    found = hasattr(cl.Program.build, "__wrapped__")
    print("installed" if found else "not installed", os.environ.get("PYTEST_XDIST_WORKER"))
    assert str(found) == os.environ["WANTED"]
"""


@pytest.mark.parametrize(
    ("arguments", "setting", "wanted"),
    [
        ((), "", "False"),
        (("--kcl",), "", "True"),
        pytest.param(("--kcl", "-n", "2"), "", "True", marks=pytest.mark.slow),
        ((), "kcl = true", "True"),
        (("-p", "no:kcl"), "", "False"),
    ],
)
def test_suite(child, arguments, setting, wanted):
    """Off unless asked for by option or setting; workers of xdist have it, too. A session leaves nothing installed."""
    (child.directory / "test_suite.py").write_text(SUITE)
    (child.directory / "pytest.ini").write_text(f"[pytest]\n{setting}\n")
    code = f"""
        import pytest
        from kcl import integrations
        print(pytest.main(["-q", *{arguments!r}]), integrations.is_installed())
    """
    done = child.run(code, WANTED=wanted)
    assert done.stdout.splitlines()[-1] == "0 False", done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p", "kcl.integrations.pytest_plugin"),
        pytest.param(("-n", "2"), marks=pytest.mark.slow),
    ],
)
def test_warnings_are_errors(child, arguments):
    """A suite in which a warning is an error starts where kcl was imported before pytest; so do its workers."""
    (child.directory / "test_suite.py").write_text(SUITE)
    (child.directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    child.output("-m", "kcl", "run", "-m", "pytest", "-q", *arguments, WANTED="True")


LAUNCHING = """
import numpy as np, pyopencl as cl, pytest
from handle_recipes import add

@pytest.mark.parametrize("number", range(4))
def test_launch(number):
    (platform, *_) = cl.get_platforms()
    context = cl.Context(platform.get_devices())
    add()(cl.CommandQueue(context), x=np.zeros(8, np.float32), a=float(number))
"""


@pytest.mark.slow
def test_workers_are_of_the_run(child):
    """The workers of pytest-xdist make one run, which has the name of pytest."""
    (child.directory / "test_suite.py").write_text(LAUNCHING)
    child.output("-m", "pytest", "-q", "-n", "2")
    said = child.python("-m", "kcl", "report", "pytest").stdout
    assert said.startswith("pytest, 2 processes, ")


PRIVATE = """
import os, subprocess, sys
import numpy as np, pyopencl as cl, pytest
import kcl
from handle_recipes import add

@pytest.fixture(scope="module")
def queue():
    (platform, *_) = cl.get_platforms()
    context = cl.Context(platform.get_devices())
    yield cl.CommandQueue(context)  # a queue does not hold its context on every platform

def launch(queue, kernel):
    kernel(queue, x=np.zeros(8, np.float32), a=1.0)

KERNEL = add()

def test_outside(queue):
    launch(queue, KERNEL)
    assert kcl.option.get_cache_dir() == os.environ["OUTER"]

def test_private(queue, kcl_cache):
    assert kcl.option.get_cache_dir() == str(kcl_cache.path) and kcl.entries() == []
    for kernel in (KERNEL, KERNEL, add()):
        launch(queue, kernel)
    counted = kcl_cache.stats()
    assert [counted[layer]["misses"] for layer in ("generator", "binary")] == [1, 1]
    assert [event.outcome for event in kcl_cache.events] == ["miss", "miss", "hit"]

def test_found_again(queue, kcl_cache):
    launch(queue, KERNEL)
    assert [event.outcome for event in kcl_cache.events] == ["miss", "miss"]
    kcl_cache.begin_again()
    launch(queue, KERNEL)
    assert [(event.layer, event.outcome) for event in kcl_cache.events] == [("generator", "hit"), ("binary", "hit")]

def test_children(kcl_cache):
    code = "import kcl; print(kcl.option.get_cache_dir())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(kcl_cache.path)

def test_after():
    assert kcl.option.get_cache_dir() == os.environ["OUTER"]
    assert not kcl.entries(kernel="nothing") and kcl.entries(kernel="add")
"""


def test_private_cache(child):
    """A test that asks for `kcl_cache` has an empty cache and counts of its own; the others do not see it."""
    (child.directory / "test_suite.py").write_text(PRIVATE)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "5 passed" in child.output(*words, OUTER=str(child.cache))
