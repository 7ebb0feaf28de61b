"""`kcl.prepare` in a script with a guard and without, and the line of progress on a terminal: whole processes."""

import json
import os
import subprocess
import sys

import pytest
from harness import PLATFORMS

HEAD = """
import kcl
from opened import over_x, queue_on


@kcl.kernel
def filled(number):
    return over_x("filled", f"= {number}", "out")


"""
SCRIPT = """
import json

if GUARD:
    with open("runs", "a") as stream:
        stream.write("once")
    queue = queue_on(PLATFORM)
    kernels = [filled(number) for number in range(4)]
    kcl.prepare(kernels, queue.context, processes=2)
    kcl.flush()
    assert [float(kernel(queue, out_host=True)[1][0][0]) for kernel in kernels] == [0, 1, 2, 3]
    print(json.dumps([[row["hits"], row["misses"]] for row in map(kcl.stats().get, ("generator", "binary"))]))
"""
TERMINAL = """
from kcl.cache import progress

progress.AFTER = 0.0
queue = queue_on(PLATFORM)
for number in (1, 2):
    print("before", number, flush=True)
    filled(number)(queue)
    print("after", number, flush=True)
"""


def driver(child, text, platform_name):
    path = child.directory / "driver.py"
    path.write_text((HEAD + text).replace("PLATFORM", repr(PLATFORMS[platform_name])))
    return path


@pytest.mark.slow_platforms
def test_script(child, platform_name):
    """Workers find the recipes of a script with a guard, which runs once; every launch of it hits."""
    text = SCRIPT.replace("GUARD", '__name__ == "__main__"')
    done = child.finished(driver(child, text, platform_name))
    assert "CacheWarning" not in done.stderr
    assert json.loads(done.stdout) == [[4, 0], [4, 0]]
    assert (child.directory / "runs").read_text() == "once"


@pytest.mark.one_platform
def test_script_without_a_guard(child, platform_name):
    """Workers stop at the call in a script without a guard; its process prepares all, and a warning says so."""
    done = child.finished(driver(child, SCRIPT.replace("GUARD", "True"), platform_name))
    assert json.loads(done.stdout) == [[0, 4], [0, 4]]
    assert 'put if __name__ == "__main__": above it' in done.stderr


@pytest.mark.one_platform
@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
@pytest.mark.parametrize(("variables", "is_shown"), [({}, True), ({"KCL_PROGRESS": "0"}, False)])
def test_terminal(child, platform_name, variables, is_shown):
    """On a terminal the line stands while a kernel is built, and is erased before the program prints again."""
    import pty

    ours, theirs = pty.openpty()
    environment = child.environment(PYTHONWARNINGS="ignore", **variables)
    path = driver(child, TERMINAL, platform_name)
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = subprocess.Popen([sys.executable, path], env=environment, **streams)
    os.close(theirs)
    written = b""
    try:
        while block := os.read(ours, 4096):
            written += block
    except OSError:  # the last one at the terminal has gone
        pass
    os.close(ours)
    assert process.wait() == 0, written
    assert (b"kcl: 2 kernels, " in written) == is_shown
    lines = [line.rpartition("\r")[2] for line in written.decode().split("\r\n")]
    assert lines == ["before 1", "after 1", "before 2", "after 2", ""]
