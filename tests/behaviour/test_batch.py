"""Runs under an MPI launcher and in batch jobs, where a scheduler ends what is left of a job."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from harness import run_command

from kcl.drivers.pocl.jobs import JobQueue

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


def ranks(child, *options, **variables):
    """Run the program unchanged on several ranks."""
    (child.directory / "solver.py").write_text(PROGRAM)
    command = [MPIEXEC, "-n", str(RANKS), sys.executable, "-m", "kcl", "run", *options, "solver.py"]
    environment = child.environment(PYOPENCL_CTX="portable", SLURM_JOB_ID="1", **variables)
    return run_command(command, env=environment, cwd=child.directory)


@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec here")
def test_second_run_hits(child, platform_name):
    """The second run of an unchanged program under mpiexec hits in every layer of every rank, at once."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")
    for options in ((), ("--strict", "hit")):
        done = ranks(child, *options)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("[128.0, 192.0]") == RANKS


@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec here")
def test_launcher_does_not_wait(child, platform_name):
    """The launcher ends with its ranks, though a helper of theirs still lives."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")
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


def killed(child, **variables):
    """Run the program until its launches are over; then every process of the job is killed, a helper, too."""
    (child.directory / "solver.py").write_text(PROGRAM + "import time; time.sleep(3600)\n")
    environment = child.environment(PYOPENCL_CTX="portable", SLURM_JOB_ID="1", **variables)
    command = [sys.executable, "-m", "kcl", "run", "solver.py"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        command, env=environment, cwd=child.directory, start_new_session=True, **streams
    ) as job:
        said = job.stdout.readline()
        os.killpg(job.pid, signal.SIGKILL)
    assert said == "[128.0, 192.0]\n"
    assert job.returncode == -signal.SIGKILL
    queue = JobQueue(child.cache / "kcl")
    while queue.has_helper():
        if queue.holder():
            os.kill(queue.holder(), signal.SIGKILL)
        time.sleep(0.01)
    (child.directory / "solver.py").write_text(PROGRAM)


def ran(child, *words, **variables):
    """Run a command of kcl in a batch job, which must end well."""
    variables = {"PYOPENCL_CTX": "portable", "SLURM_JOB_ID": "1", **variables}
    done = child.python("-m", "kcl", *words, **variables)
    assert done.returncode == 0, done.stderr
    return done


def solved(child, *options):
    """Run the program to its end; return what it said beside its numbers."""
    done = ran(child, "run", *options, "solver.py")
    assert done.stdout == "[128.0, 192.0]\n"
    return done.stderr


@pytest.mark.parametrize("promote", ["background", "off"])
@pytest.mark.slow_cases(2)
def test_killed_job(child, platform_name, promote):
    """What a job that was killed after its first launches leaves costs misses in the next run at most."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")
    killed(child, KCL_PROMOTE=promote)
    assert "Warning" not in solved(child)
    solved(child, "--strict", "hit")


def test_open_jobs_are_told(child, platform_name):
    """Reports and explanations count what waits to be completed, and name the command that does it."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")
    (child.directory / "solver.py").write_text(PROGRAM)

    def said(*words, **variables):
        done = ran(child, *words, **variables)
        return done.stdout + done.stderr

    words = "2 programs wait to be completed: run `kcl flush`"
    for _ in range(2):
        assert words in said("run", "solver.py", KCL_PROMOTE="off", KCL_REPORT="1")
    assert words in said("report")
    assert words in said("explain")
    said("flush")
    assert "completed" not in said(
        "run", "--strict", "hit", "solver.py", KCL_PROMOTE="off", KCL_REPORT="1"
    )
    assert "completed" not in said("report")
    assert "completed" not in said("explain")
