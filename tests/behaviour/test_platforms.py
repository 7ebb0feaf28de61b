"""Systems that lack what Linux has: locks of files, and the folder `/proc`. Nothing fails, and numbers are the same."""

import json
import subprocess
import sys

import pytest
from harness import PLATFORMS, run_command

PROGRAM = """
import json, sys
import pyopencl as cl
import kcl
from beside_driver import launched
from opened import queue_on
outcomes = []
kcl.add_hook(lambda event: outcomes.append(event.outcome) if event.layer == "binary" else None)
queue = queue_on(sys.argv[1])
text = "kernel void f(global int *x) { x[0] = %d; }"
numbers = [launched(queue, cl.Program(queue.context, text % step).build().f) for step in (3, 4)]
print(json.dumps([numbers, outcomes]))
"""
# read by every interpreter that imports `site`: an import of fcntl fails, as on Windows
WITHOUT_LOCKS = 'import sys\nsys.modules["fcntl"] = None\n'
WITHOUT_PROC = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']


def ran(child, before, *words):
    """Run Python with these words, below other words; return what it printed. It warns of nothing."""
    command = [*before, sys.executable, *words]
    done = run_command(command, env=child.environment(), cwd=child.directory)
    assert done.returncode == 0, done.stderr
    assert "kcl:" not in done.stderr
    return done.stdout


def program(child, before, platform_name):
    """Run the program under `kcl run`; return its numbers, and the outcomes of the binary layer."""
    (child.directory / "program.py").write_text(PROGRAM)
    words = ("-m", "kcl", "run", "program.py", PLATFORMS[platform_name])
    return json.loads(ran(child, before, *words).splitlines()[-1])


def test_without_locks(child, platform_name):
    """Programs run. PoCL's helper needs a lock: its own cache serves alone, nothing is asked for or waited for."""
    (child.directory / "sitecustomize.py").write_text(WITHOUT_LOCKS)
    second = "miss" if platform_name == "pocl" else "hit"
    assert program(child, [], platform_name) == [[3, 4], ["miss", "miss"]]
    assert "every entry is complete" in ran(child, [], "-m", "kcl", "wait")
    assert program(child, [], platform_name) == [[3, 4], [second, second]]
    assert not list(child.cache.glob("kcl/pending/*/*"))


def test_without_proc(child, platform_name):
    """Programs run, and the helper completes their entries: the second run hits."""
    if platform_name == "intel":
        pytest.skip("Intel's runtime makes no context without /proc")
    if subprocess.run([*WITHOUT_PROC, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system over /proc")
    assert program(child, WITHOUT_PROC, platform_name) == [[3, 4], ["miss", "miss"]]
    ran(child, WITHOUT_PROC, "-m", "kcl", "wait")
    assert program(child, WITHOUT_PROC, platform_name) == [[3, 4], ["hit", "hit"]]
