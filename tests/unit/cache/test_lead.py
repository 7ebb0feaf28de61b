"""kcl.cache.lead: one thread of one process makes what many miss at once, and no holder keeps the others for ever."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import crowd
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from at_once import at_once
from handle_recipes import add
from harness import PLATFORMS, run_command
from planted import plant
from project import NUMBERS, Run

from kcl.base.settings import trust
from kcl.cache import layers, lead, locks, places
from kcl.cache.faults import CacheWarning
from kcl.cache.lead import KeyLead, Lead

DIGEST = "a" * 64
TAKE = """
    import json, sys, time
    from kcl.cache import layers, locks
    from kcl.cache.lead import Lead
    one = Lead("matmul").__enter__()
    one.take(layers.binary(), "a" * 64)
    print(json.dumps(bool(one._held) and one._held[0]._descriptor >= 0), flush=True)
"""
HOLD = TAKE + "    sys.stdin.readline()\n    one.release()\n"

# On a busy machine the helper that completes PoCL's entries is slower than a process waits for it, and than a build is
# worth; and a process may end before others ask.
PATIENT = """
import sys, driver
from kcl.drivers.pocl import asking as patient
patient._PATIENCE, patient.recorded_seconds = 120.0, lambda entry: 600.0
patient._is_built = lambda job, in_vain: False
driver.main(*sys.argv[1:])
"""


def started(child, code):
    """Start a process that runs code."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.Popen(command, env=child.environment(), text=True, **pipes)


def answer(process):
    """Return whether a process has the lock at its end."""
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.fixture
def leader(child):
    """A process that leads until its standard input is closed."""
    with started(child, HOLD) as process:
        assert json.loads(process.stdout.readline()) is True
        yield process
        process.send_signal(signal.SIGCONT)
        with contextlib.suppress(OSError):
            process.stdin.close()


def wait_for(condition):
    """Wait until a condition holds."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def lock_files(child, process):
    """Return the descriptors of the lock file that a process has open; it can only wait then."""
    path = str(child.cache / "kcl" / "flight" / DIGEST)
    return [link for link in open_files(process.pid) if link == path]


def open_files(number="self", folder="/"):
    """Return the paths of the files under a folder that a process has open."""
    paths = []
    for descriptor in os.listdir(f"/proc/{number}/fd"):
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/{number}/fd/{descriptor}"))
    return sorted(path for path in paths if path.startswith(str(folder)))


def waiting(child, code=TAKE):
    """Start a process that waits for the same lead."""
    process = started(child, code)
    wait_for(lambda: lock_files(child, process))
    return process


class TestProcesses:
    def test_alone(self):
        """Who is alone leads at once; a release leaves no file, and a second one does nothing."""
        folder = places.own(places.FLIGHT)
        with Lead("add") as one:
            for digest in (DIGEST, "b" * 64):  # of the next stage
                one.take(layers.binary(), digest)
                assert os.listdir(folder) == [digest]
            for _ in range(2):
                one.release()
                assert os.listdir(folder) == []

    @pytest.mark.parametrize("is_killed", [True, False])
    def test_ended(self, child, leader, is_killed):
        """The lead of a killed process passes to one that waits; who waited for one that has released has no lead."""
        process = waiting(child)
        if is_killed:
            leader.kill()
        else:
            leader.stdin.close()
        assert answer(process) is is_killed

    def test_a_stopped_holder_is_not_waited_for(self, child, leader):
        leader.send_signal(signal.SIGSTOP)
        wait_for(lambda: locks.state_of(str(leader.pid)) in locks.STOPPED)
        begun = time.monotonic()
        assert answer(started(child, TAKE)) is False
        assert time.monotonic() - begun < 15

    @pytest.mark.parametrize("limit", ["LONGEST_SECONDS", "UNKNOWN_SECONDS"])
    def test_a_wait_has_an_end_an_earlier_one_for_a_holder_of_another_host(
        self, child, leader, limit
    ):
        path = child.cache / "kcl" / "flight" / DIGEST
        if limit == "UNKNOWN_SECONDS":
            path.write_text(f"{leader.pid} elsewhere")
        head = f"\n    from kcl.cache import locks\n    locks.{limit} = 0.5\n"
        assert answer(started(child, head + TAKE)) is False

    def test_close_fails(self, monkeypatch):
        """A lock file that cannot be closed without an error is closed all the same, and nothing is raised."""
        close = os.close

        def failing(descriptor):
            close(descriptor)
            raise OSError(errno.EIO, "of close")

        monkeypatch.setattr(os, "close", failing)
        assert [taken(), taken()] == [True, True]

    def test_network(self, monkeypatch):
        """On a network file system no lock is asked for: those of other nodes may answer late, or never."""
        monkeypatch.setattr(trust, "is_network", lambda _path: True)
        assert not taken()

    @pytest.mark.parametrize("kind", ["file", "link", "fifo", "directory"])
    @pytest.mark.faults
    def test_hindered(self, tmp_path, kind, monkeypatch):
        """Whatever lies in the way of the lock, the layer goes alone after one warning, and the target stays."""
        monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path / "cache"))
        folder = tmp_path / "cache" / "kcl" / "flight"
        os.makedirs(folder.parent, mode=0o700)
        if kind == "file":
            folder.write_text("mine")
        else:
            folder.mkdir(0o700)
            plant(kind, tmp_path / "target", folder / DIGEST)
        layers.reset()
        words = "use its directory: " + (".*flight is not a directory" if kind == "file" else "")
        with pytest.warns(CacheWarning, match=words):
            assert not taken()
        assert not (tmp_path / "target").exists()


class TestForks:
    def test_of_a_holder(self, child):
        """A child that is forked during a lead leads nobody: its end changes nothing, its life keeps no lock."""
        code = """
    import os, signal
    from kcl.cache import places
    pid = os.fork()
    if not pid:
        one.release()
        del one
        signal.pause()
    folder = places.own(places.FLIGHT)
    held = os.open(os.path.join(folder, "a" * 64), os.O_RDWR)
    print(json.dumps([os.listdir(folder), locks.try_lock(held)]))
    one.release()
    one.take(layers.binary(), "a" * 64)
    print(json.dumps([one._held[0]._descriptor >= 0]))
    os.kill(pid, signal.SIGKILL)
"""
        said = child.run(TAKE + code)
        assert said.stdout.splitlines()[1:] == [json.dumps([[DIGEST], False]), "[true]"], (
            said.stderr
        )

    def test_killed_with_a_child(self, child):
        """The lead of a process that is killed passes on though a child that it forked lives."""
        fork = """
    import os, signal
    pid = os.fork()
    if pid:
        print(pid, flush=True)
    signal.pause()
"""
        process = started(child, TAKE + fork)
        process.stdout.readline()
        forked = int(process.stdout.readline())
        process.kill()
        process.wait()
        try:
            assert answer(started(child, TAKE))
        finally:
            os.kill(forked, signal.SIGKILL)

    def test_a_forked_child_waits_for_no_thread_of_its_parent(self, child):
        code = """
        import os, threading, time
        from kcl.cache import layers
        from kcl.cache.lead import Lead
        led, over = threading.Event(), threading.Event()
        def work():
            with Lead("add") as one, one.alone("key"):
                led.set()
                over.wait(60)
        threading.Thread(target=work).start()
        led.wait()
        pid = os.fork()
        if not pid:
            begun = time.monotonic()
            with Lead("add") as one, one.alone("key"):
                os._exit(time.monotonic() - begun > 5)
        print(os.waitpid(pid, 0)[1])
        over.set()
        """
        assert child.run(code).stdout == "0\n"


def in_thread(work):
    """Begin a function in a thread of its own."""
    return ThreadPoolExecutor(1).submit(work)


@pytest.fixture
def waits(monkeypatch):
    """The number of waits for threads of this process that have begun."""
    real, begun = KeyLead.wait, []

    def counted(self):
        begun.append(self)
        return real(self)

    monkeypatch.setattr(KeyLead, "wait", counted)
    return begun


def taken():
    """Take the lead, and return whether this thread has it."""
    with Lead("add") as one:
        one.take(layers.binary(), DIGEST)
        return bool(one._held) and one._held[0]._descriptor >= 0


class TestThreads:
    """Threads of one process wait in memory; no thread waits for a lock file of its own process."""

    def test_one_leads(self, tmp_path, waits):
        """Threads that want the same wait until the first one releases, and open no lock file."""
        with Lead("add") as one:
            one.take(layers.binary(), DIGEST)
            files = open_files(folder=tmp_path)
            threads = [in_thread(taken) for _ in range(4)]
            wait_for(lambda: len(waits) == 4)
            assert open_files(folder=tmp_path) == files != []
        assert [thread.result(20) for thread in threads] == [False] * 4
        assert lead._state().leads == {}

    def test_one_of_a_process_waits_for_another(self, child, leader):
        """While a thread waits for another process the other threads of its process wait for that thread."""
        code = """
        import json, threading
        from kcl.cache import layers
        from kcl.cache.lead import Lead
        found = []
        def take():
            with Lead("matmul") as one:
                one.take(layers.binary(), "a" * 64)
                found.append(bool(one._held))
        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps(sorted(found)))
        """
        process = waiting(child, code)
        time.sleep(0.3)
        assert len(lock_files(child, process)) == 1
        leader.stdin.close()
        assert answer(process) == [False, False, True]

    def test_bounded(self, monkeypatch):
        """A thread that has waited too long goes on alone, and nobody else waits for that holder."""
        monkeypatch.setattr(locks, "LONGEST_SECONDS", 0.3)
        with Lead("add") as one:
            one.take(layers.binary(), DIGEST)
            assert in_thread(taken).result(20) is False
            monkeypatch.setattr(KeyLead, "wait", None)
            assert (
                in_thread(lambda: Lead("add").alone(one._held[0]._key).__enter__()).result(20)
                is None
            )

    def test_alone(self):
        """Threads enter the block of a key one at a time, and an error ends the block."""
        inside, most = [], []

        def work(number):
            for _ in range(50):
                with contextlib.suppress(OSError), Lead("add") as one, one.alone("a"):
                    inside.append(number)
                    most.append(len(inside))
                    inside.remove(number)
                    raise OSError(os.strerror(28))

        at_once(work)
        assert len(most) == 400
        assert set(most) == {1}

    def test_releases_before_it_waits(self, waits):
        """A thread that must wait releases its leads before; one that need not wait does not."""
        with Lead("add") as one:
            one.take(layers.binary(), DIGEST)
            with one.alone("a"):
                assert one._held
                other = Lead("add")
                other.take(layers.binary(), "b" * 64)

                def work():
                    with other.alone("a"):
                        return True

                thread = in_thread(work)
                wait_for(lambda: waits)
                assert not other._held
            assert thread.result(20)

    def test_a_launch_within_a_launch(self, waits):
        """A signal handler that launches waits for nobody: neither for its own thread, nor for another."""
        held = []
        over = threading.Event()

        def work():
            with Lead("other") as other, other.alone("b"):
                held.append(other)
                over.wait(60)

        thread = in_thread(work)
        wait_for(lambda: held)

        def handler(_number, _frame):
            with Lead("add") as inner, inner.alone("b"):
                inner.take(layers.binary(), DIGEST)
                held.append(bool(inner._held))

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with Lead("add") as one:
                one.take(layers.binary(), DIGEST)
                os.kill(os.getpid(), signal.SIGUSR1)
                assert one._held
        finally:
            signal.signal(signal.SIGUSR1, before)
            over.set()
        thread.result(20)
        assert held[1:] == [False]
        assert not waits

    @pytest.mark.timeout(30)
    def test_handler_during_the_release(self, monkeypatch):
        """A signal handler that comes as a holder releases has the lead next."""
        leave, seen = KeyLead._leave, []

        def interrupted_leave(held):
            if not seen:
                seen.append("signal")
                os.kill(os.getpid(), signal.SIGUSR1)
            leave(held)

        def handler(_number, _frame):
            with Lead("add") as one, one.alone("a"):
                seen.append("handler")

        monkeypatch.setattr(KeyLead, "_leave", interrupted_leave)
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with Lead("add") as one, one.alone("a"):
                pass
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert seen == ["signal", "handler"]


@pytest.mark.one_platform
def test_handler_that_launches(child, platform_name):
    """A signal handler that launches the very kernels that its thread is making does not wait for that thread."""
    arguments = [PLATFORMS[platform_name], "signal", "1", "8", "12"]
    numbers, longest = child.script(crowd.__file__, *arguments, KCL_PROMOTE="off")
    assert numbers == [list(range(12, 20))]
    assert longest < 25


def storms(child, number, arguments):
    """Yield what each process of each storm said; a storm has a cache of its own.

    `KCL_STORMS` sets how many storms there are.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    for storm in range(int(os.environ.get("KCL_STORMS", "1"))):
        place = str(child.directory / str(storm))
        environment = child.environment(KCL_CACHE_DIR=place, KCL_PROMOTE="off")
        commands = [[sys.executable, crowd.__file__, *arguments(one)] for one in range(number)]
        started = [subprocess.Popen(one, env=environment, **streams) for one in commands]
        for one in started:
            output, errors = one.communicate(timeout=240 + 30 * number)
            assert one.returncode == 0, errors
            yield *json.loads(output), errors


class TestStorm:
    @pytest.mark.one_platform
    @pytest.mark.slow
    def test_threads(self, child, platform_name):
        """Three processes with two threads each, which want the same new kernels at once, never wait for each other."""
        platform = [PLATFORMS[platform_name]]
        for numbers, longest, errors in storms(child, 3, lambda _number: platform):
            assert numbers == [list(range(crowd.KERNELS))] * 2
            assert longest < 25, errors

    @pytest.mark.one_platform
    @pytest.mark.slow
    def test_ways(self, child, platform_name):
        """A crowd of all sorts on one cache: threads, forks, children of multiprocessing, `os._exit`, signals.

        `KCL_CROWD_PROCESSES` and `KCL_CROWD_THREADS` set how many there are.
        """
        number = int(os.environ.get("KCL_CROWD_PROCESSES", "6"))
        threads = os.environ.get("KCL_CROWD_THREADS", "3")

        def arguments(one):
            way = crowd.WAYS[one % len(crowd.WAYS)]
            return PLATFORMS[platform_name], way, threads, "20"

        for numbers, _longest, errors in storms(child, number, arguments):
            assert numbers == [list(range(20))] * int(threads), errors
            faults = [
                line
                for line in errors.splitlines()
                if ("Traceback" in line or "CacheWarning" in line)
                and "although its code was in the cache" not in line  # advice
            ]
            assert not faults, errors

    @pytest.mark.slow_platforms
    def test_cold(self, project):
        """Of four processes that start cold at once one runs each recipe and builds each program."""
        command = [sys.executable, "-c", PATIENT, project.platform, "pair"]
        environment = project.child.environment(PYTHONPATH=project.path)
        options = {"env": environment, "cwd": project.folder}
        with ThreadPoolExecutor(4) as pool:
            runs = [
                Run(done) for done in pool.map(lambda _: run_command(command, **options), range(4))
            ]
        for layer in ("generator", "binary"):
            outcomes = [
                one for run in runs for found in run.outcomes(layer).values() for one in found
            ]
            assert outcomes.count("miss") == len(runs[0].outcomes(layer))
            assert set(outcomes) == {"miss", "hit"}
        assert all(number == NUMBERS[name] for run in runs for name, number in run.numbers.items())


@pytest.fixture
def log(monkeypatch):
    """The locks and releases of this process in their order, by the number of the key."""
    numbers, said, lock, release = {}, [], KeyLead.lock, KeyLead.release

    def locked(self, *rest):
        lock(self, *rest)
        said.append(("leads", numbers.setdefault(self._key, len(numbers))))

    def released(self):
        if self._key in numbers:  # no program's block
            said.append(("releases", numbers[self._key]))
        release(self)

    monkeypatch.setattr(KeyLead, "lock", locked)
    monkeypatch.setattr(KeyLead, "release", released)
    return said


def test_who_generates_builds(queue, log):
    """Whoever generates code builds its program; where none is built the others wait for the code only."""
    add(sizes=(8,)).source(queue, x=np.dtype(np.float32), a=np.dtype(np.float32))
    assert log == [("leads", 0), ("releases", 0)]
    log.clear()
    add(sizes=(9,))(queue, x=np.zeros(9, np.float32), a=1)
    assert log == [("leads", 1), ("leads", 2), ("releases", 1), ("releases", 2)]
    log.clear()
    with pytest.raises(RuntimeError, match="must be supplied"):
        add(sizes=(10,))(queue, a=1)
    with pytest.raises(cl.Error):
        add(code="no OpenCL C")(queue, x=np.zeros(8, np.float32), a=1)
    leads, releases = (
        sorted(key for what, key in log if what == word) for word in ("leads", "releases")
    )
    assert leads == releases != []
