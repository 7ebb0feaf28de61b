"""Look-ups of worker processes appear in `kcl stats` and `kcl explain`, however the workers end."""

import json
import subprocess
import sys
import time

import pytest
from harness import PLATFORMS

from kcl.drivers.pocl import client

WORK = """
import multiprocessing, os, sys


def work(number, ends=False):
    import kcl
    from opened import over_x, queue_on

    @kcl.kernel
    def filled(number):
        return over_x("filled", f"= {number}", "out")

    found = float(filled(number)(queue_on(PLATFORM), out_host=True)[1][0][0])
    if ends:
        kcl.flush()
        os._exit(0)
    return found
"""
POOL = """
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map(work, [1, 2]) == [1, 2]
"""
PROCESSES = """
if __name__ == "__main__":
    for number in (1, 2):
        process = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(number, True))
        process.start()
        process.join()
        assert process.exitcode == 0
"""
FORKED = """
if __name__ == "__main__":
    for number in (1, 2):
        if os.fork() == 0:
            work(number, ends=True)
        assert os.wait()[1] == 0
"""
METHODS = ("fork", "spawn", "forkserver")
WAYS = {
    **{f"pool, {how}": (POOL, how) for how in METHODS},
    **{f"os._exit after flush, {how}": (PROCESSES, how) for how in METHODS},
    "os.fork": (FORKED, ""),
}


@pytest.fixture
def write(child, platform_name):
    def write(text):
        text = text.replace("PLATFORM", repr(PLATFORMS[platform_name]))
        (child.directory / "driver.py").write_text(text)

    return write


@pytest.mark.slow_platforms
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.slow_cases(4)
def test_look_ups_are_kept(child, write, way):
    """Both look-ups of two workers are counted, and their misses are explained."""
    text, how = WAYS[way]
    write(WORK + text)
    child.finished("driver.py", how)
    counted = {row["layer"]: row for row in told(child, "stats")}
    assert counted["generator"]["misses"] == counted["binary"]["misses"] == 2
    missed = [(one["layer"], one["kernel"]) for one in told(child, "explain", "--all")]
    assert sorted(missed) == [("binary", "filled")] * 2 + [("generator", "filled")] * 2


BESIDE = """
def check(number):
    assert work(number) == number

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    workers = []

    def start(number):
        workers.append(context.Process(target=check, args=(number,)))
        workers[-1].start()

    start(1)
    start(2)
    check(1)
    start(3)
    check(3)
    start(3)
    check(2)
    for one in workers:
        one.join()
    assert [one.exitcode for one in workers] == [0] * 4
"""


@pytest.mark.slow_platforms
@pytest.mark.parametrize("how", METHODS[1:])
@pytest.mark.slow_cases(2)
def test_beside_the_parent(child, write, how):
    """Workers that start before, during and after the first use of their parent are right, and hit in the next run."""
    write(WORK + BESIDE)
    for strict in ("fault", "hit,fault"):
        assert "CacheWarning" not in child.finished("driver.py", how, KCL_STRICT=strict).stderr


MISSED = '["binary","filled"'
KILLED = """
if __name__ == "__main__":
    work(1)
    print("launched", flush=True)
    sys.stdin.read()
"""


@pytest.mark.one_platform
def test_killed(child, write):
    """A process that lives on has its look-ups in the journal soon, so a signal may end it."""
    write(WORK + KILLED)
    command = [sys.executable, "driver.py"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = child.environment(KCL_PROMOTE="off")
    process = subprocess.Popen(command, cwd=child.directory, env=environment, **streams)
    assert process.stdout.readline() == "launched\n"
    journal = child.cache / "kcl" / "journal"
    while not any(MISSED in path.read_text() for path in journal.rglob("run-*") if path.is_file()):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.communicate()
    found = told(child, "report")
    assert found["driver"] == "driver.py"
    assert [row["misses"] for row in found["layers"]] == [1, 1, 0]


JOBLIB = """
import kcl
import numpy as np
from joblib import Parallel, delayed
from opened import queue_on


@kcl.kernel
def filled(number):
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<4}", f"x[i] = {number}", [lp.GlobalArg("x", np.float32, shape=4)])


def work(number):
    return float(filled(number)(queue_on(PLATFORM), out_host=True)[1][0][0])


if __name__ == "__main__":
    assert Parallel(n_jobs=2, timeout=240)(delayed(work)(number) for number in (1, 2)) == [1, 2]
"""


@pytest.mark.slow_platforms
@pytest.mark.slow
def test_joblib(child, write):
    """A recipe of a script that joblib sends to its workers is recorded there, and its look-ups are counted."""
    write(JOBLIB)
    for _run in range(2):
        child.finished("driver.py")
        assert client.idle(str(child.cache / "kcl"), 60.0)
    counted = {row["layer"]: row for row in told(child, "stats")}
    assert [(row["misses"], row["hits"]) for row in counted.values()] == [(2, 2), (2, 2)]
    drivers = [one["driver"] for one in told(child, "explain", "--all")]
    assert drivers == ["driver.py"] * 4


def told(child, *words):
    return json.loads(child.finished("-m", "kcl", *words, "--json").stdout)
