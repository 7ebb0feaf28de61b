"""`kcl tune`: a program tunes at its first launches, and later runs find what was measured."""

import os
import signal
import subprocess
import sys
import time

import pyopencl as cl
import pytest
from at_once import wait_until
from commands import run
from harness import ROOT

from kcl.base import process
from kcl.choices.tuning import tuner

pytestmark = pytest.mark.slow_platforms

DRIVER = """\
import glob
import os
import sys
import numpy as np
import pyopencl as cl
import kcl
from elementwise import elementwise, one_array

SPACE = kcl.space(turns=[1000, 1], how=["right", "endless"])

@kcl.kernel(sizes={"n": "x.shape[0]"}, space=SPACE)
def adding(turns=1000, how="right"):
    endless = "while (!i && x[i] != -5) x[i] = 0;" if how == "endless" else ""
    if how == "endless":
        open("begun", "w").close()
    if os.environ.get("STOPPED"):
        exec("raise KeyboardInterrupt")
    if os.environ.get("COUNT_TURNS") and turns == 1 and (found := glob.glob(os.environ["TMPDIR"] + "/kcl-tune-*")):
        with open("turns", "a") as file:  # how many tunings have a folder as a candidate is generated
            print(len(found), file=file)
    work = f"float y = x[i]; for (int k = 0; k < {turns}; ++k) y = sin(y);"
    text = f"{work} {endless} x[i] = y > 2 ? y : x[i] + 1;"
    return elementwise("adding", text, local_size=1, x="inout")

@kcl.kernel
def plain():
    return one_array("plain", "x[i] = 1;")

if __name__ == "__main__":
    context = cl.Context([cl.get_platforms()[int(sys.argv[1])].get_devices()[0]])
    queue = cl.CommandQueue(context)
    kernel = {"plain": plain(), "all": adding()}.get(sys.argv[2]) or adding(how=sys.argv[2])
    for n in map(int, sys.argv[3:]):
        x = np.ones(n, np.float32)
        kernel(queue, x=x)
        assert x[-1] == 2 or sys.argv[2] == "plain"
        print("done", n)
"""


LONG = ["--seconds", "600"]  # nothing is left out for lack of time


@pytest.fixture
def program(child, device):
    """Run `kcl tune` or the program on the device of this platform."""
    (child.directory / "driver.py").write_text(DRIVER)
    place = str(cl.get_platforms().index(device.platform))

    def run(*words, options=None, code=0, **variables):
        command = ["-m", "kcl", "tune", *options] if options is not None else []
        done = child.python(*command, "driver.py", place, *words, **variables)
        assert done.returncode == code, done.stderr
        return done

    run.start = [sys.executable, "-m", "kcl", "tune", *LONG, "driver.py", place]
    return run


def listed(child):
    return child.output("-m", "kcl", "tune", "--list")


class TestTune:
    def test_a_program(self, program, child):
        """Each size is tuned at its first launch, the launch goes on, and the next run measures nothing."""
        done = program("right", "64", "64", "500", options=LONG)
        assert done.stdout.split() == ["done", "64", "done", "64", "done", "500"]
        assert done.stderr.count("turns=1 takes") == 2
        assert "adding at n = 64: turns=1 takes 0." in done.stderr
        again = program("right", "64", "500", KCL_STRICT="hit")
        assert "takes" not in again.stderr
        tuned = program("right", "64", options=["--level", "1", *LONG])
        assert "tuned before" in tuned.stderr
        found = listed(child)
        assert "n=64" in found
        assert "n=500" in found
        assert "measured at n=64" in found

    @pytest.mark.parametrize(
        ("words", "options", "said"),
        [
            (("right", "64"), ["--only", "subtracting"], "kernel subtracting; it launched adding"),
            (("plain", "4"), [], "kernel with a space"),
        ],
    )
    def test_nothing_to_tune(self, program, words, options, said):
        """Other kernels than those that are named, and recipes without a space, run as they are; that is complained of."""
        done = program(*words, options=[*options, *LONG], code=1)
        assert "takes" not in done.stderr
        assert f"the program launched no {said}" in done.stderr
        assert done.stdout == f"done {words[-1]}\n"

    @pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_stopped(self, program, child, number, status):
        """A signal ends the program; what is known is kept, and after Ctrl-C no process and no folder stays."""
        folder = child.directory / "temporary"
        folder.mkdir()
        environment = child.environment(TMPDIR=str(folder))
        streams = {"cwd": child.directory, "text": True, "stderr": subprocess.PIPE}
        running = subprocess.Popen([*program.start, "all", "64"], env=environment, **streams)
        wait_until((child.directory / "begun").exists, 120.0)
        running.send_signal(number)
        _out, said = running.communicate(timeout=120)
        assert running.returncode == status, said
        if number == signal.SIGINT:
            assert "stopped: what is known is kept, and the next `kcl tune` goes on with it" in said
            assert os.listdir(folder) == []

    def test_interrupted_in_a_text(self, program):
        """The status is the same where the signal comes as Python runs a text."""
        assert "stopped" in program("all", "64", options=LONG, code=130, STOPPED="1").stderr

    def test_two_at_once(self, program, child, context, monkeypatch):
        """Two tunings at once take turns, and the second one measures nothing."""
        folder = child.directory / "temporary"
        folder.mkdir()
        monkeypatch.setenv("XDG_CACHE_HOME", str(child.cache))
        process.reset()
        running, said = [], [child.directory / "first.txt", child.directory / "second.txt"]
        with tuner._turn(cl.CommandQueue(context)):
            for path in said:
                with path.open("w") as stderr:
                    environment = child.environment(TMPDIR=str(folder), COUNT_TURNS="1")
                    words = [*program.start, "right", "64"]
                    running.append(
                        subprocess.Popen(words, env=environment, cwd=child.directory, stderr=stderr)
                    )
            while not all("waiting for another tuning" in path.read_text() for path in said):
                assert [one.poll() for one in running] == [None, None]
                time.sleep(0.01)
            assert os.listdir(folder) == []
        assert [one.wait() for one in running] == [0, 0]
        assert set((child.directory / "turns").read_text().split()) == {"1"}
        first, second = sorted(
            (path.read_text() for path in said), key=lambda text: "tuned before" in text
        )
        assert first.count("turns=1  ok") == 1
        assert "1 of 2 choices tried" in first
        assert "turns=1 takes 0." in second
        assert "tuned before" in second

    def test_no_time(self, program, child):
        """A tuning that had time for no choice fails, and nothing is stored; so does one behind the last of --total."""
        done = program("right", "64", options=["--seconds", "0.01"], code=1)
        assert "give it more seconds" in done.stderr
        assert done.stdout == "done 64\n"
        done = program("right", "64", "500", options=["--total", "0.01"], code=1)
        assert "adding is not tuned: no time of --total is left" in done.stderr
        assert "nothing" in listed(child)

    def test_wrong_use(self):
        assert "name a program" in run("tune", code=2).stderr

    def test_ranks(self, program):
        done = program("right", "64", options=LONG, code=2, OMPI_COMM_WORLD_SIZE="2")
        assert "every rank would tune" in done.stderr
        done = program("right", "64", options=["--anyway", *LONG], OMPI_COMM_WORLD_SIZE="2")
        assert "turns=1 takes" in done.stderr


@pytest.mark.slow
def test_example(child):
    """The example runs untuned, tunes, and is served its table: then every look-up hits."""

    def run(*words, **variables):
        return child.output(*words, ROOT / "examples" / "tuned.py", "64", **variables)

    assert "nothing is measured" in run()
    assert "measured at n=64" in run("-m", "kcl", "tune", "--seconds", "20")
    assert "measured at n=64" in run(KCL_STRICT="hit")
