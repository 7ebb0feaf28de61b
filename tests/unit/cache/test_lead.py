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

import crowd
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from at_once import at_once
from handle_recipes import add
from harness import PLATFORMS
from project import NUMBERS, Run

from kcl.base.settings import trust
from kcl.cache import layers, lead, locks, places
from kcl.cache.faults import CacheWarning
from kcl.cache.lead import KeyLead, Lead
from kcl.cache.stores import directory

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


def started(child, code, **more):
    """Start a process that runs code."""
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.Popen(command, env=child.environment(**more), **pipes)


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


def is_waiting(child, process):
    """Return True if a process has the lock file open; it can only wait then."""
    path = str(child.cache / "kcl" / "flight" / DIGEST)
    for number in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{process.pid}/fd/{number}") == path:
                return True
    return False


def waiting(child):
    """Start a process that waits for the same lead."""
    process = started(child, TAKE)
    wait_for(lambda: is_waiting(child, process))
    return process


class TestProcesses:
    def test_alone(self):
        """Who is alone leads at once; a release leaves no file, and a second one does nothing."""
        folder = places.own(places.FLIGHT)
        with Lead("add") as one:
            one.take(layers.binary(), DIGEST)
            assert os.listdir(folder) == [DIGEST]
            one.take(layers.binary(), "b" * 64)  # of the next stage
            assert os.listdir(folder) == ["b" * 64]
            one.release()
            assert os.listdir(folder) == []

    def test_released(self, child, leader):
        """Who waited for a holder that has released goes on without the lead."""
        process = waiting(child)
        leader.stdin.close()
        assert answer(process) is False

    def test_killed(self, child, leader):
        """The lead of a process that is killed passes to one that waits."""
        process = waiting(child)
        leader.kill()
        assert answer(process) is True

    def test_stopped(self, child, leader):
        """A stopped holder is not waited for."""
        leader.send_signal(signal.SIGSTOP)
        wait_for(lambda: locks.state_of(str(leader.pid)) in locks.STOPPED)
        begun = time.monotonic()
        assert answer(started(child, TAKE)) is False
        assert time.monotonic() - begun < 15

    @pytest.mark.parametrize("limit", ["LONGEST_SECONDS", "UNKNOWN_SECONDS"])
    def test_bounded(self, child, leader, limit):
        """A wait has an end, an earlier one for a holder of another host."""
        path = child.cache / "kcl" / "flight" / DIGEST
        if limit == "UNKNOWN_SECONDS":
            path.write_text(f"{leader.pid} elsewhere")
        head = f"\n    from kcl.cache import locks\n    locks.{limit} = 0.5\n"
        assert answer(started(child, head + TAKE)) is False

    def test_close_fails(self, monkeypatch):
        """Where the lock file cannot be closed without an error it is closed all the same, and nothing is raised."""
        close = os.close

        def failing(descriptor):
            close(descriptor)
            raise OSError(errno.EIO, "of close")

        with Lead("add") as one:
            one.take(layers.binary(), DIGEST)
            with monkeypatch.context() as patched:
                patched.setattr(os, "close", failing)
                one.release()
            one.take(layers.binary(), DIGEST)
            assert one._held[0]._descriptor >= 0

    def test_network(self, monkeypatch):
        """On a network file system no lock is asked for: those of other nodes may answer late, or never."""
        monkeypatch.setattr(trust, "is_network", lambda _path: True)
        with Lead("add") as one:
            one.take(layers.binary(), DIGEST)
            assert os.listdir(places.own(places.FLIGHT)) == []

    @pytest.mark.parametrize("kind", ["file", "link", "fifo", "directory"])
    @pytest.mark.faults
    def test_hindered(self, tmp_path, kind, monkeypatch):
        """Whatever lies in the way of the lock, the layer goes alone after one warning, and the target stays."""
        monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path / "cache"))
        target = tmp_path / "cache" / "kcl" / "flight"
        os.makedirs(target.parent, mode=0o700)
        place = target / DIGEST
        if kind == "file":
            target.write_text("mine")
        else:
            os.mkdir(target, 0o700)
            plant = {
                "link": lambda: place.symlink_to(tmp_path / "t"),
                "fifo": lambda: os.mkfifo(place),
            }
            plant.get(kind, place.mkdir)()
        layers.reset()
        words = "use its directory: " + (".*flight is not a directory" if kind == "file" else "")
        with pytest.warns(CacheWarning, match=words), Lead("add") as one:
            one.take(layers.binary(), DIGEST)
        assert not (tmp_path / "t").exists()


class TestForks:
    def test_of_a_holder(self, child):
        """A child that is forked during a lead leads nobody: its end changes nothing, its life keeps no lock."""
        code = (
            TAKE
            + """
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
        )
        process = started(
            child, "\n    import os, signal\n    from kcl.cache import places\n" + code
        )
        output, errors = process.communicate(timeout=60)
        assert output.splitlines()[1:] == [json.dumps([[DIGEST], False]), "[true]"], errors

    def test_killed_with_a_child(self, child):
        """The lead of a process that is killed passes on though a child that it forked lives."""
        code = (
            "\n    import os, signal\n"
            + TAKE
            + "    pid = os.fork()\n    print(pid, flush=True) if pid else 0\n"
        )
        process = started(child, code + "    signal.pause()\n")
        process.stdout.readline()
        forked = int(process.stdout.readline())
        process.kill()
        process.wait()
        try:
            assert answer(started(child, TAKE))
        finally:
            os.kill(forked, signal.SIGKILL)

    def test_beside_a_thread(self, child):
        """A forked child waits for no thread of its parent."""
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


class InThread:
    """A function that runs in a thread of its own."""

    def __init__(self, work):
        self.result = None
        self._thread = threading.Thread(target=lambda: setattr(self, "result", work()))
        self._thread.start()

    def ended(self, seconds=20.0):
        """Wait for the end and return what the function returned."""
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        return self.result


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
        return bool(one._held)


class TestThreads:
    """Threads of one process wait in memory; no thread waits for a lock file of its own process."""

    def test_one_leads(self, tmp_path, waits):
        """Threads that want the same wait until the first one releases, and open no lock file."""
        with Lead("add") as one:
            one.take(layers.binary(), DIGEST)
            files = open_files(tmp_path)
            threads = [InThread(taken) for _ in range(4)]
            wait_for(lambda: len(waits) == 4)
            assert open_files(tmp_path) == files != []
        assert [thread.ended() for thread in threads] == [False] * 4
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
        process = started(child, code)
        wait_for(lambda: is_waiting(child, process))
        time.sleep(0.3)
        path = str(child.cache / "kcl" / "flight" / DIGEST)
        links = [
            f"/proc/{process.pid}/fd/{number}" for number in os.listdir(f"/proc/{process.pid}/fd")
        ]
        assert [os.path.realpath(link) for link in links].count(path) == 1
        leader.stdin.close()
        assert answer(process) == [False, False, True]

    def test_bounded(self, monkeypatch):
        """A thread that has waited too long goes on alone, and nobody else waits for that holder."""
        monkeypatch.setattr(locks, "LONGEST_SECONDS", 0.3)
        with Lead("add") as one:
            one.take(layers.binary(), DIGEST)
            assert InThread(taken).ended() is False
            monkeypatch.setattr(KeyLead, "wait", None)
            assert (
                InThread(lambda: Lead("add").alone(one._held[0]._key).__enter__()).ended() is None
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

                thread = InThread(work)
                wait_for(lambda: waits)
                assert not other._held
            assert thread.ended()

    def test_a_launch_within_a_launch(self, waits):
        """A signal handler that launches waits for nobody: neither for its own thread, nor for another."""
        held = []
        over = threading.Event()

        def work():
            with Lead("other") as other, other.alone("b"):
                held.append(other)
                over.wait(60)

        thread = InThread(work)
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
        thread.ended()
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


class TestInterrupted:
    @pytest.mark.one_platform
    def test_handler_that_launches(self, child, platform_name):
        """A signal handler that launches the very kernels that its thread is making does not wait for that thread."""
        arguments = [PLATFORMS[platform_name], "signal", "1", "8", "12"]
        numbers, longest = child.script(crowd.__file__, *arguments, KCL_PROMOTE="off")
        assert numbers == [list(range(12, 20))]
        assert longest < 25


def open_files(folder):
    """Return the paths of the files under a folder that this process has open."""
    paths = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(path for path in paths if path.startswith(str(folder)))


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
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = project.child.environment(PYTHONPATH=project.path)
        processes = [
            subprocess.Popen(command, env=environment, cwd=project.folder, **streams)
            for _ in range(4)
        ]
        ended = [(*process.communicate(timeout=300), process.returncode) for process in processes]
        runs = [
            Run(subprocess.CompletedProcess(command, code, output, errors))
            for output, errors, code in ended
        ]
        for layer in ("generator", "binary"):
            outcomes = [
                outcome
                for run in runs
                for found in run.outcomes(layer).values()
                for outcome in found
            ]
            assert outcomes.count("miss") == len(runs[0].outcomes(layer))
            assert set(outcomes) == {"miss", "hit"}
        assert all(number == NUMBERS[name] for run in runs for name, number in run.numbers.items())


class TestWhoBuilds:
    """Whoever generates the code of a kernel builds its program too, and so has the lead for the next one."""

    @pytest.fixture
    def log(self, monkeypatch):
        """The locks and releases of this process in their order, by the number of the key."""
        numbers, said, lock, release = {}, [], KeyLead.lock, KeyLead.release

        def locked(self, *rest):
            found = lock(self, *rest)
            said.append(("leads", numbers.setdefault(self._key, len(numbers))))
            return found

        def released(self):
            if self._key in numbers:  # no program's block
                said.append(("releases", numbers[self._key]))
            release(self)

        monkeypatch.setattr(KeyLead, "lock", locked)
        monkeypatch.setattr(KeyLead, "release", released)
        return said

    def test_both(self, queue, log):
        """The others may go on with the code when they wait for its program already."""
        x = cl.array.zeros(queue, 8, np.float32)
        add(sizes=(8,))(queue, x=x, a=1)
        assert x.get().tolist() == [1] * 8
        assert log == [("leads", 0), ("leads", 1), ("releases", 0), ("releases", 1)]

    def test_code_alone(self, queue, log):
        """Where no program is built the others wait for the code only, also where making it fails."""
        kernel = add(sizes=(8,))
        assert "kernel void add" in kernel.source(
            queue, x=np.dtype(np.float32), a=np.dtype(np.float32)
        )
        assert log == [("leads", 0), ("releases", 0)]
        with pytest.raises(RuntimeError, match="must be supplied"):
            add(sizes=(9,))(queue, a=1)
        with pytest.raises(cl.Error):
            add(code="no OpenCL C", sizes=(10,))(
                queue, x=cl.array.zeros(queue, 10, np.float32), a=1
            )
        assert sorted(number for what, number in log if what == "leads") == sorted(
            number for what, number in log if what == "releases"
        )


def test_publish(tmp_path, monkeypatch):
    """An entry is written to a file of its own, whole, before it has its name."""
    steps = []
    for name in ("open", "write", "close", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *given, real=real, name=name: (steps.append(name), real(*given))[1]
        )
    directory.publish(str(tmp_path / "entry"), b"whole")
    assert steps == ["open", "write", "close", "replace"]
    assert (tmp_path / "entry").read_bytes() == b"whole"
