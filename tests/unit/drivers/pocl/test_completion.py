"""kcl.drivers.pocl.completion: when entries are completed, and what is done about a hit that was a partial one."""

import shutil
import signal

import pytest

from kcl.cache.lead import close_lock
from kcl.drivers.pocl import poclbin
from kcl.drivers.pocl.jobs import JobQueue

SIZES = """
    import json, sys
    import numpy as np
    import pyopencl as cl
    import kcl

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
    for size in map(int, sys.argv[1].split(",")):
        event, (x,) = twice()(queue, x=np.ones(64, np.float32), w=np.int32(size))
        assert (x == 2).all()
"""
KILL = """
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""
FLUSH = """
    shown = []
    done = kcl.flush(progress=lambda done, total: shown.append([done, total]))
    print(json.dumps([done, shown[-1], kcl.flush()]))
"""
UNCHANGED = """
    import sys
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    cl.Program(context, f"kernel void filled(global int *x) {{ x[0] = {sys.argv[1]}; }}").build()
"""
ON_POCL = {"PYOPENCL_CTX": "portable"}


def libraries(folder):
    """Return the code that lies in a PoCL cache, by its path below the program's folder."""
    return {
        "/" + str(path.relative_to(folder).as_posix()).split("/", 2)[2]: path.read_bytes()
        for path in folder.rglob("*.so")
    }


@pytest.fixture
def pocl(project, platform_name):
    """A project on PoCL; other drivers give out their binaries at once."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")
    return project


def entries(project):
    """Return the addresses of the binary entries."""
    return sorted(project.binaries.scan())


class TestWhen:
    def test_exit(self, pocl):
        """Under `KCL_PROMOTE=exit` all entries are completed after the process."""
        pocl.run("pair", KCL_PROMOTE="exit")
        pocl.finish()
        assert len(entries(pocl)) == 2

    @pytest.mark.parametrize("variable", ["SLURM_JOB_ID", "PMI_SIZE"])
    @pytest.mark.slow_cases(2)
    def test_batch(self, pocl, variable):
        """Under a batch scheduler or an MPI launcher entries are completed too: the second run hits in every layer."""
        pocl.run("pair", **{variable: "1"})
        pocl.run("pair", warm=True, KCL_STRICT="hit", **{variable: "1"})

    def test_off(self, pocl):
        """Under `KCL_PROMOTE=off` jobs are written, and no helper is started; a later run has them done."""
        pocl.run("pair", KCL_PROMOTE="off")
        queue = JobQueue(str(pocl.child.cache / "kcl"))
        assert (len(queue.jobs()), queue.has_helper(), entries(pocl)) == (2, False, [])
        pocl.run("pair", warm=True, KCL_STRICT="hit")

    def test_killed(self, pocl):
        """A process that is killed after its first launches leaves its jobs; the next run has them done and hits."""
        killed = pocl.child.run(SIZES + KILL, "16", KCL_PROMOTE="exit", **ON_POCL)
        assert killed.returncode == -signal.SIGKILL
        assert entries(pocl) == []
        again = pocl.child.run(SIZES, "16", KCL_STRICT="hit", **ON_POCL)
        assert again.returncode == 0, again.stderr

    def test_flush(self, pocl):
        """`kcl.flush` completes what was launched though nothing is completed by itself, and says how far it is."""
        code = SIZES + FLUSH
        assert pocl.child.json(code, "16", KCL_PROMOTE="off", **ON_POCL) == [True, [1, 1], True]
        assert len(entries(pocl)) == 1

    def test_flush_on_a_terminal(self, pocl):
        """Where progress is shown and nobody takes it, a line says how far it is."""
        code = "    from kcl.cache import progress\n    progress.AFTER = 0\n" + SIZES + "    assert kcl.flush()\n"
        done = pocl.child.run(code, "16", KCL_PROMOTE="off", KCL_PROGRESS="1", **ON_POCL)
        assert "kcl: completing entries: 1 of 1" in done.stderr.splitlines()


class TestPartialHits:
    def test_new_size(self, pocl):
        """A local size that the entry lacks is reported and added; then PoCL generates no code for either."""
        child = pocl.child
        child.json(SIZES + "\n    print(1)", "16", **ON_POCL)
        pocl.finish()
        partial = child.run(SIZES, "32", KCL_REPORT="1", **ON_POCL)
        said = "partial hit: PoCL compiled twice at local size 32, which the entry lacks; a helper adds it: "
        assert f"{said}`python -m kcl wait` waits for that" in " ".join(partial.stderr.split())
        pocl.finish()
        _address, entry = pocl.binary_of("twice")
        held = poclbin.read(entry.parts["binary"]).code()
        assert len(held) == 2
        shutil.rmtree(child.cache / "pocl")
        both = child.run(SIZES, "16,32", KCL_REPORT="1", KCL_STRICT="hit", **ON_POCL)
        assert both.returncode == 0, both.stderr
        assert "partial" not in both.stderr
        assert libraries(child.cache / "pocl" / "kcache") == held

    def test_next_run_waits(self, pocl):
        """A run that begins while a helper completes an entry waits for that, and its hit is no partial one."""
        child = pocl.child
        child.json(SIZES + "\n    print(1)", "16", **ON_POCL)
        pocl.finish()
        queue = JobQueue(str(child.cache / "kcl"))
        lock = queue.lock()  # so no helper comes before the next run
        assert child.run(SIZES, "32", **ON_POCL).returncode == 0
        close_lock(lock)
        assert len(queue.jobs()) == 1
        # Nothing but a hit will do, so the run has all the patience that there is.
        both = child.run(SIZES, "16,32", KCL_REPORT="1", KCL_STRICT="hit", **ON_POCL)
        assert both.returncode == 0, both.stderr
        assert "partial" not in both.stderr
        assert not queue.due()

    def test_other_kernel(self, pocl):
        """The kernel that was launched is named, not the one that the text was first built for."""
        code = SIZES.replace("; }", "; } __kernel void thrice(__global float *x) { x[get_global_id(0)] *= 3; }")
        code += """
    @kcl.kernel
    def thrice():
        arguments = [kcl.Array("x", np.float32, "(64,)", "inout")]
        return twice.__wrapped__().kernel("thrice", arguments=arguments, global_size=(8, 8), local_size=(4, 2))

    if size == 32:
        thrice()(queue, x=x)
"""
        assert pocl.child.run(code, "16", **ON_POCL).returncode == 0
        pocl.finish()
        partial = pocl.child.run(code, "16,32", KCL_REPORT="1", **ON_POCL)
        assert partial.returncode == 0, partial.stderr
        said = "PoCL compiled thrice at local size (4, 2) and twice at local size 32, which the entry lacks"
        assert said in " ".join(partial.stderr.split())

    def test_many_programs(self, pocl):
        """What several programs of one kernel lack is said once, with their number."""
        code = SIZES.replace("def twice():", "def twice(number):").replace('*= 2; }",', '*= 2; }" + "//" * number,')
        code = code.replace("in map(int", "in 3 * [*map(int").replace('split(",")):', 'split(","))]:')
        begin = "    import itertools\n    numbers = itertools.cycle(range(3))\n"
        code = begin + code.replace("twice()", "twice(next(numbers))")
        assert pocl.child.run(code, "16", **ON_POCL).returncode == 0
        pocl.finish()
        partial = pocl.child.run(code, "32", KCL_REPORT="1", **ON_POCL)
        assert partial.stderr.count("partial hit") == 1
        said = "PoCL compiled twice at local size 32, which the entries of 3 programs lack; a helper adds it"
        assert said in " ".join(partial.stderr.split())


def test_explained(pocl):
    """A miss is explained at exit with the text of a program that is handed to a helper then."""
    for number in "12":
        run = pocl.child.run(UNCHANGED, number, options=("-m", "kcl", "run", "--explain"), **ON_POCL)
        assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines()[1:] == [
        "  OpenCL C changed",
        "    -kernel void filled(global int *x) { x[0] = 1; }",
        "    +kernel void filled(global int *x) { x[0] = 2; }",
    ]
