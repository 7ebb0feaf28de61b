"""Systems that lack what Linux has: locks of files, and the folder `/proc`. Nothing fails, and numbers are the same."""

import json
import subprocess
import sys

import pytest
from harness import PLATFORMS, run_command

PROGRAM = """
import json, sys
import numpy as np
import pyopencl as cl
import kcl
outcomes = []
kcl.add_hook(lambda event: outcomes.append(event.outcome) if event.layer == "binary" else None)
(platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
numbers = []
for step in (3, 4):
    program = cl.Program(
        context, "__kernel void f(__global int *x) { x[get_global_id(0)] = %d; }" % step
    ).build()
    there, here = cl.Buffer(context, cl.mem_flags.READ_WRITE, 400), np.zeros(100, np.int32)
    program.f(queue, (100,), None, there)
    cl.enqueue_copy(queue, here, there)
    numbers.append(int(here.sum()))
print(json.dumps([numbers, outcomes]))
"""
# read by every interpreter that imports `site`: an import of fcntl fails, as on Windows
WITHOUT_LOCKS = 'import sys\nsys.modules["fcntl"] = None\n'
WITHOUT_PROC = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']


def ran(child, before, *words):
    """Run Python with these words, below other words; return what it printed. It warns of nothing."""
    done = run_command(
        [*before, sys.executable, *words],
        env=child.environment(PYTHONPATH=str(child.directory)),
        cwd=child.directory,
    )
    assert done.returncode == 0, done.stderr
    assert "kcl:" not in done.stderr
    return done.stdout


def program(child, before, platform_name):
    """Run the program under `kcl run`; return its numbers, and the outcomes of the binary layer."""
    (child.directory / "program.py").write_text(PROGRAM)
    words = ("-m", "kcl", "run", "program.py", PLATFORMS[platform_name])
    return json.loads(ran(child, before, *words).splitlines()[-1])


class TestWithoutLocks:
    def test_numbers(self, child, platform_name):
        """Programs run. PoCL's helper needs a lock: its own cache serves alone, nothing is asked for or waited for."""
        (child.directory / "sitecustomize.py").write_text(WITHOUT_LOCKS)
        second = "miss" if platform_name == "pocl" else "hit"
        assert program(child, [], platform_name) == [[300, 400], ["miss", "miss"]]
        assert "every entry is complete" in ran(child, [], "-m", "kcl", "wait")
        assert program(child, [], platform_name) == [[300, 400], [second, second]]
        assert not list(child.cache.glob("kcl/pending/*/*"))


class TestWithoutProc:
    def test_hits(self, child, platform_name):
        """Programs run, and the helper completes their entries: the second run hits."""
        if platform_name == "intel":
            pytest.skip("Intel's runtime makes no context without /proc")
        if subprocess.run([*WITHOUT_PROC, "true"], capture_output=True).returncode:
            pytest.skip("needs the right to mount a file system over /proc")
        assert program(child, WITHOUT_PROC, platform_name) == [[300, 400], ["miss", "miss"]]
        ran(child, WITHOUT_PROC, "-m", "kcl", "wait")
        assert program(child, WITHOUT_PROC, platform_name) == [[300, 400], ["hit", "hit"]]
