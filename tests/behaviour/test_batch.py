"""Runs under an MPI launcher and in batch jobs, where a scheduler ends what is left of a job."""

import os
import shutil
import signal
import sys
import textwrap

import pytest
from harness import run_command

MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
)
RANKS = 2
PROGRAM = """
import numpy as np
import pyopencl as cl

import loopy as lp

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
sums = []
for factor in (2, 3):
    knl = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {factor}*x[i]", name="times", lang_version=(2018, 2))
    event, (y,) = knl.executor(context)(queue, x=np.ones(64, np.float32))
    sums.append(float(y.sum()))
print(sums, flush=True)
"""


pytestmark = pytest.mark.usefixtures("_pocl_alone")
under_mpi = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec here")


@pytest.fixture
def _pocl_alone(platform_name):
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")


@pytest.fixture
def job(child):
    """Child processes in a batch job, beside the program."""
    (child.directory / "solver.py").write_text(PROGRAM)
    usual = child.environment
    batch = {"PYOPENCL_CTX": "portable", "SLURM_JOB_ID": "1"}
    child.environment = lambda **variables: usual(**batch, **variables)
    return child


@under_mpi
def test_second_run_hits(job):
    """The second run of an unchanged program under mpiexec hits in every layer of every rank, at once."""
    for options in ((), ("--strict", "hit")):
        command = [MPIEXEC, "-n", str(RANKS), sys.executable, "-m", "kcl", "run", *options]
        done = run_command([*command, "solver.py"], env=job.environment(), cwd=job.directory)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("[128.0, 192.0]") == RANKS


@under_mpi
def test_launcher_does_not_wait(child):
    """The launcher ends with its ranks, though a helper of theirs still lives."""
    code = """
        import os, sys
        from kcl.drivers.pocl import client

        reading, writing = os.pipe()
        stays = "import os, sys, time; os.write(int(sys.argv[1]), str(os.getpid()).encode()); time.sleep(3600)"
        client._spawn([sys.executable, "-c", stays, str(writing)], writing)
        print(os.read(reading, 20).decode())
    """
    command = [MPIEXEC, "-n", "1", sys.executable, "-c", textwrap.dedent(code)]
    done = run_command(command, env=child.environment())
    assert done.returncode == 0, done.stderr
    os.kill(int(done.stdout), signal.SIGKILL)  # it is still there


def test_open_jobs_are_told(job):
    """Reports and explanations count what waits to be completed, and name the command that does it."""
    off = {"KCL_PROMOTE": "off", "KCL_REPORT": "1"}

    def said(*words, **variables):
        done = job.finished("-m", "kcl", *words, **variables)
        return done.stdout + done.stderr

    words = "2 programs wait to be completed: run `kcl flush`"
    for _ in range(2):
        assert words in said("run", "solver.py", **off)
    assert words in said("report")
    assert words in said("explain")
    said("flush")
    assert "completed" not in said("run", "--strict", "hit", "solver.py", **off)
    assert "completed" not in said("report") + said("explain")
