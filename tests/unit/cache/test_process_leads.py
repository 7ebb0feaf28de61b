"""kcl.cache.process_leads: one process makes what many miss at once, and no holder keeps the others for ever."""

from __future__ import annotations

import contextlib
import errno
import fcntl
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

from kcl import option
from kcl.cache import layers, patience, process_leads, thread_leads
from kcl.cache.layer import Answer, CacheWarning
from kcl.generate.stage import CallValues

LEAD = """
    import select, sys, time
    from kcl.cache import process_leads
    joined = process_leads.join("a" * 64, "matmul")
    print("leads", flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        until = time.process_time() + 0.01  # it works
        while time.process_time() < until:
            pass
    joined.release()
"""
WAIT = """
    import json, sys
    from kcl.cache import process_leads
    joined = process_leads.join("a" * 64, "matmul")
    print(json.dumps([joined.waited_for, joined.leads]))
"""

# On a busy machine the helper that completes PoCL's entries is slower than a process waits for it.
PATIENT = """
import sys, driver
from kcl.drivers.pocl import driver as patient
patient._PATIENCE = patient._state().left = 120.0
driver.main(*sys.argv[1:])
"""


@contextlib.contextmanager
def leading(child):
    """Run a process that leads until its standard input is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(LEAD)],
        env=child.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "leads\n"
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.stdin.close()


@pytest.fixture
def leader(child):
    """A process that leads until its standard input is closed."""
    with leading(child) as process:
        yield process


def waiting(child):
    """Start a process that waits for the same lead."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WAIT)],
        env=child.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_holder(monkeypatch, child, leader):
    """The process that has the lead is known while it lives; a file that a dead one left says nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(child.cache))
    assert process_leads.holder("a" * 64) == str(leader.pid)
    assert process_leads.holder("b" * 64) == ""
    leader.kill()
    leader.wait()
    assert (child.cache / "kcl" / "flight" / ("a" * 64)).exists()
    assert process_leads.holder("a" * 64) == ""


def is_waiting(child, process, after=""):
    """Wait until a process has the lock file open; it can only wait then."""
    path = str(child.cache / "kcl" / "flight" / ("a" * 64 + after))
    while process.poll() is None:
        for number in os.listdir(f"/proc/{process.pid}/fd"):
            try:
                if os.readlink(f"/proc/{process.pid}/fd/{number}") == path:
                    return True
            except OSError:
                pass
    return False


class TestJoin:
    def test_alone(self):
        """Who is alone leads at once, and leaves no file when it releases; landing again does nothing."""
        joined = process_leads.join("b" * 64, "matmul")
        folder = os.path.join(option.folder("kcl"), "flight")
        assert (joined.leads, joined.waited_for, os.listdir(folder)) == (True, "", ["b" * 64])
        joined.release()
        joined.release()
        assert os.listdir(folder) == []

    def test_close_fails(self, monkeypatch):
        """Where the lock file cannot be closed without an error it is closed all the same, and nothing is raised."""
        joined, close = process_leads.join("b" * 64, "matmul"), os.close

        def failing(descriptor):
            close(descriptor)
            raise OSError(errno.EIO, "of close")

        with monkeypatch.context() as patched:
            patched.setattr(os, "close", failing)
            joined.release()
        with process_leads.join("b" * 64, "matmul") as again:
            assert again.leads

    def test_landed(self, child, leader):
        """Who waited for a leader that was released goes on without the lead, and knows for whom it has waited."""
        process = waiting(child)
        assert is_waiting(child, process)
        leader.stdin.close()
        output, _ = process.communicate(timeout=60)
        assert output.strip() == f'["{leader.pid}", false]'

    def test_killed(self, child, leader):
        """The lead of a process that is killed passes to one that waits."""
        process = waiting(child)
        assert is_waiting(child, process)
        leader.kill()
        output, _ = process.communicate(timeout=60)
        assert output.strip() == f'["{leader.pid}", true]'

    def test_stopped(self, child, leader):
        """A stopped leader is left behind, though it holds the lock; one of those who waited leads in its place."""
        leader.send_signal(signal.SIGSTOP)
        output, _ = waiting(child).communicate(timeout=60)
        assert output.strip() == f'["{leader.pid}", true]'

    def test_idle(self, child, leader):
        """A leader that lives and does nothing is left behind after a second, and not waited for again."""
        leader.send_signal(signal.SIGSTOP)  # which is not seen: as in a container, or in a lock of the system
        code = """
        import time
        from kcl.cache import patience, process_leads
        signs = patience.signs_of
        process_leads.signs_of = lambda process: signs(process)._replace(is_stopped=False)
        for _ in range(2):
            started = time.monotonic()
            with process_leads.join("a" * 64, "matmul") as successor:
                print(successor.leads, round(time.monotonic() - started, 1))
        """
        first, second = child.run(code).stdout.splitlines()
        assert (first[:5], second) == ("True ", "True 0.0")
        assert patience.IDLE_SECONDS <= float(first[5:]) < patience.IDLE_SECONDS + 1

    def test_stopped_for_every_key(self, child, leader):
        """Whoever was seen stopped for a while is not waited for again, for that key or another, until it goes on."""
        leader.send_signal(signal.SIGSTOP)
        code = """
        import os, signal, sys, time
        from kcl.cache import patience, process_leads
        with process_leads.join("a" * 64, "matmul") as successor:
            print(successor.leads, successor.waited_for)
        def never(seconds):
            raise AssertionError("waits")
        paused, time.sleep = time.sleep, never
        with process_leads.join("a" * 64, "matmul") as successor:
            print(successor.leads, successor.waited_for)
        os.kill(int(successor.waited_for), signal.SIGCONT)
        while patience.signs_of(successor.waited_for).is_stopped:
            paused(0.01)
        def stop(seconds):
            print("waits")
            os.kill(int(successor.waited_for), signal.SIGSTOP)
            time.sleep = paused
        time.sleep = stop
        with process_leads.join("a" * 64, "matmul") as successor:
            print(successor.leads, successor.waited_for)
        """
        said = child.run(code).stdout.splitlines()
        again = f"True {leader.pid}"
        assert said == [again, again, "waits", again]

    def test_successors(self, child, leader):
        """Those who waited for a stopped leader wait for its successor, and for the successor of that one."""
        leader.send_signal(signal.SIGSTOP)
        with leading(child) as successor:
            process = waiting(child)
            assert is_waiting(child, process, ".1")
            successor.send_signal(signal.SIGSTOP)
            output, _ = process.communicate(timeout=60)
            assert output.strip() == f'["{successor.pid}", true]'
            process = waiting(child)
            successor.send_signal(signal.SIGCONT)
            assert is_waiting(child, process, ".1")
            successor.stdin.close()
            output, _ = process.communicate(timeout=60)
            assert output.strip() == f'["{successor.pid}", false]'

    def test_heir_without_a_name(self, child, leader):
        """An successor that has the lock, and not yet written who it is, is waited for like any other."""
        leader.send_signal(signal.SIGSTOP)
        path = child.cache / "kcl" / "flight" / ("a" * 64 + ".1")
        with open(path, "wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = waiting(child)
            assert is_waiting(child, process, ".1")
            time.sleep(3 * patience.STOPPED_SECONDS)
            assert process.poll() is None
            os.unlink(path)
        output, _ = process.communicate(timeout=60)
        assert output.strip() == '["another", false]'

    def test_shown(self, child, leader):
        """A long wait says for whom and for what."""
        process = waiting(child)
        assert process.stderr.readline() == f"waiting 2 s for process {leader.pid}: matmul\n"
        leader.stdin.close()
        process.communicate(timeout=60)

    def test_other_key(self):
        """A lock is no wider than its key."""
        with process_leads.join("b" * 64, "matmul") as one, process_leads.join("c" * 64, "other") as other:
            assert one.leads
            assert other.leads

    def test_forked(self, child):
        """A child that is forked during a lead does not keep the lock when its parent has released."""
        found = child.json(
            """
            import json, os, signal
            from kcl.cache import process_leads
            joined = process_leads.join("a" * 64, "matmul")
            pid = os.fork()
            if not pid:
                signal.pause()
            joined.release()
            with process_leads.join("a" * 64, "matmul") as again:
                print(json.dumps([again.leads, again.waited_for]))
            os.kill(pid, signal.SIGKILL)
            """
        )
        assert found == [True, ""]

    def test_child_ends(self, child):
        """A child that is forked during a lead leads nobody: when it releases, or ends, its parent leads as before."""
        found = child.json(
            """
            import json, os, sys
            from kcl.cache import process_leads
            from kcl import option
            joined = process_leads.join("a" * 64, "matmul")
            pid = os.fork()
            if not pid:
                led = joined.leads
                joined.release()
                del joined
                sys.exit(led)
            _, status = os.waitpid(pid, 0)
            folder = os.path.join(option.folder("kcl"), "flight")
            descriptor = os.open(os.path.join(folder, "a" * 64), os.O_RDWR)
            print(json.dumps([joined.leads, status, os.listdir(folder), process_leads._lock(descriptor)]))
            """
        )
        assert found == [True, 0, ["a" * 64], False]

    def test_killed_with_child(self, child):
        """The lead of a process that is killed passes on though a child that it forked lives."""
        code = """
            import os, signal, sys
            from kcl.cache import process_leads
            joined = process_leads.join("a" * 64, "matmul")
            pid = os.fork()
            if pid:
                print(pid, flush=True)
            signal.pause()
        """
        command = [sys.executable, "-c", textwrap.dedent(code)]
        process = subprocess.Popen(command, env=child.environment(), stdout=subprocess.PIPE, text=True)
        forked = int(process.stdout.readline())
        process.kill()
        process.wait()
        try:
            output, _ = waiting(child).communicate(timeout=60)
        finally:
            os.kill(forked, signal.SIGKILL)
        assert output.strip().endswith("true]")

    @pytest.mark.parametrize("kind", ["file", "link", "fifo", "directory"])
    @pytest.mark.faults
    def test_hindered(self, tmp_path, kind, monkeypatch):
        """Whatever lies in the way of the lock, the layer goes alone after one warning, and the target stays."""
        monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path / "cache"))
        target = tmp_path / "cache" / "kcl" / "flight"
        os.makedirs(target.parent, mode=0o700)
        place = target / ("d" * 64)
        if kind == "file":
            target.write_text("mine")
        else:
            os.mkdir(target, 0o700)
            plant = {"link": lambda: place.symlink_to(tmp_path / "t"), "fifo": lambda: os.mkfifo(place)}
            plant.get(kind, place.mkdir)()
        layers.reset()
        words = "use its directory: .*flight is a file" if kind == "file" else "wait for other processes"
        with pytest.warns(CacheWarning, match=words):
            assert layers.binary().join("d" * 64, "matmul") is None
        assert not (tmp_path / "t").exists()


class TestThreads:
    """Threads of one process wait in memory; no thread waits for a lock file of its own process."""

    def test_landed_by_all_at_once(self):
        """Threads that release one lead at once release it once, and none of them raises."""
        for _ in range(200):
            with process_leads.join("b" * 64, "matmul") as joined:
                at_once(lambda _number, released=joined: released.release())

    def test_one_leads(self, tmp_path):
        """Of two threads one leads; the other opens no lock file, and knows that a thread had the lead."""
        with process_leads.join("a" * 64, "matmul") as joined:
            assert joined.leads
            files, found = open_files(tmp_path), []
            thread = threading.Thread(target=lambda: found.append(process_leads.join("a" * 64, "matmul")))
            thread.start()
            while thread.ident not in thread_leads._state().awaited:
                time.sleep(0.001)
            assert open_files(tmp_path) == files != []
        thread.join()
        assert [(one.leads, one.by) for one in found] == [(False, "another thread")]

    def test_own_lead(self):
        """A thread that leads a key and wants it again goes on at once: a signal handler may launch the same kernel."""
        started = time.monotonic()
        with process_leads.join("a" * 64, "matmul"), process_leads.join("a" * 64, "matmul") as inner:
            assert not inner.leads
        assert time.monotonic() - started < 1

    def test_one_of_a_process_waits_for_another(self, child, leader):
        """While a thread waits for another process the other threads of its process wait for that thread."""
        code = """
        import json, threading
        from kcl.cache import process_leads
        found = []
        def join():
            with process_leads.join("a" * 64, "matmul") as joined:
                found.append([joined.waited_for, joined.leads, joined.by])
        threads = [threading.Thread(target=join) for _ in range(3)]
        for thread in threads:
            thread.start()
        print("started", flush=True)
        for thread in threads:
            thread.join()
        print(json.dumps(sorted(found)))
        """
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], env=child.environment(), stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "started\n"
        assert is_waiting(child, process)
        time.sleep(0.3)
        path = str(child.cache / "kcl" / "flight" / ("a" * 64))
        links = [f"/proc/{process.pid}/fd/{number}" for number in os.listdir(f"/proc/{process.pid}/fd")]
        assert [os.path.realpath(link) for link in links].count(path) == 1
        leader.stdin.close()
        output, _ = process.communicate(timeout=60)
        other = ["", False, "another thread"]
        assert json.loads(output) == [other, other, [str(leader.pid), False, f"process {leader.pid}"]]

    def test_program_of_a_thread_that_waits(self, queue, monkeypatch):
        """A thread that waits for who made the code holds nothing that this one wants: it builds the program."""
        x = cl.array.zeros(queue, 8, np.float32)
        add(sizes=(8,))(queue, x=x, a=1)
        kernels = [add(sizes=(8,)), add(sizes=(8,))]
        values = {"x": x, "a": 1}
        assert kernels[0]._line.generate.key() is not None
        monkeypatch.setattr(layers.binary(), "look_up", lambda *_: Answer(None, "miss", "", 0))
        other = cl.Context(queue.context.devices)
        found = []

        def launch(kernel):
            there = cl.CommandQueue(other)
            y = cl.array.zeros(there, 8, np.float32)
            kernel(there, x=y, a=2)
            found.append(y.get().tolist())

        with process_leads.join(kernels[0]._line.generate.together(CallValues(values), None), "add"):
            thread = threading.Thread(target=launch, args=(kernels[0],))
            thread.start()
            while thread.ident not in thread_leads._state().awaited:
                time.sleep(0.001)
            started = time.monotonic()
            launch(kernels[1])
            assert time.monotonic() - started < 20
            assert len(found) == 1
        thread.join()
        assert found == [[2] * 8] * 2


def open_files(folder):
    """Return the paths of the files under a folder that this process has open."""
    paths = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(path for path in paths if path.startswith(str(folder)))


class TestStorm:
    @pytest.mark.one_platform
    @pytest.mark.slow
    def test_threads(self, child, platform_name):
        """Three processes with two threads each, which want the same new kernels at once, never wait for each other.

        `KCL_STORMS` sets how many storms there are.
        """
        command = [sys.executable, crowd.__file__, PLATFORMS[platform_name]]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        for number in range(int(os.environ.get("KCL_STORMS", "1"))):
            environment = child.environment(KCL_CACHE_DIR=str(child.directory / str(number)), KCL_PROMOTE="off")
            processes = [subprocess.Popen(command, env=environment, **streams) for _ in range(3)]
            ended = [process.communicate(timeout=300) for process in processes]
            for output, errors in ended:
                numbers, longest = json.loads(output)
                assert numbers == [list(range(crowd.KERNELS))] * 2
                assert longest < 25, errors

    @pytest.mark.one_platform
    @pytest.mark.slow
    def test_ways(self, child, platform_name):
        """A crowd of all sorts on one cache: threads, forks, children of multiprocessing, `os._exit`, signals.

        `KCL_CROWD_PROCESSES` and `KCL_CROWD_THREADS` set how many there are, `KCL_STORMS` how many storms.
        """
        number = int(os.environ.get("KCL_CROWD_PROCESSES", "6"))
        threads = int(os.environ.get("KCL_CROWD_THREADS", "3"))
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        for storm in range(int(os.environ.get("KCL_STORMS", "1"))):
            environment = child.environment(KCL_CACHE_DIR=str(child.directory / str(storm)), KCL_PROMOTE="off")
            started = []
            for one in range(number):
                arguments = [PLATFORMS[platform_name], crowd.WAYS[one % len(crowd.WAYS)], str(threads), "20"]
                started.append(
                    subprocess.Popen([sys.executable, crowd.__file__, *arguments], env=environment, **streams)
                )
            for one in started:
                output, errors = one.communicate(timeout=60 + 30 * number)
                assert one.returncode == 0, errors
                assert json.loads(output)[0] == [list(range(20))] * threads, errors
                said = [line for line in errors.splitlines() if "Traceback" in line or "CacheWarning" in line]
                said = [line for line in said if "although its code was in the cache" not in line]  # advice
                assert not said, errors

    @pytest.mark.slow_platforms
    def test_cold(self, project):
        """Of four processes that start cold at once one runs each recipe and builds each program."""
        command = [sys.executable, "-c", PATIENT, project.platform, "pair"]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = project.child.environment(PYTHONPATH=project.path)
        processes = [subprocess.Popen(command, env=environment, cwd=project.folder, **streams) for _ in range(4)]
        ended = [(*process.communicate(timeout=300), process.returncode) for process in processes]
        runs = [Run(subprocess.CompletedProcess(command, code, output, errors)) for output, errors, code in ended]
        for layer in ("generator", "binary"):
            outcomes = [outcome for run in runs for found in run.outcomes(layer).values() for outcome in found]
            assert outcomes.count("miss") == len(runs[0].outcomes(layer))
            assert set(outcomes) == {"miss", "hit"}
        assert all(number == NUMBERS[name] for run in runs for name, number in run.numbers.items())


class TestWhoBuilds:
    """Whoever generates the code of a kernel builds its program too, and so has the lead for the next one."""

    @pytest.fixture
    def log(self, monkeypatch):
        """Names and ends of the leads of this process, in their order: ("joins", 0), ("leads", 0), ("releases", 0)."""
        real, names, told = process_leads.join, {}, []

        def join(digest, what, *more):
            number = names.setdefault(digest, len(names))
            told.append(("joins", number))
            joined = real(digest, what, *more)
            told.append(("leads" if joined.leads else "waited", number))
            if joined.leads:
                numbers[joined._held[0]] = number
            return joined

        def release(self):
            if self.leads:
                told.append(("releases", numbers[self._held[0]]))
            return released(self)

        numbers, released = {}, process_leads.ProcessLead.release
        monkeypatch.setattr(process_leads, "join", join)
        monkeypatch.setattr(process_leads.ProcessLead, "release", release)
        return told

    def test_both(self, queue, log):
        """The others may go on with the code when they wait for its program already."""
        x = cl.array.zeros(queue, 8, np.float32)
        add(sizes=(8,))(queue, x=x, a=1)
        assert x.get().tolist() == [1] * 8
        both = [("joins", 0), ("leads", 0), ("joins", 1), ("leads", 1), ("releases", 0), ("releases", 1)]
        assert log == both

    def test_code_alone(self, queue, log):
        """Where no program is built the others wait for the code only, also where making it fails."""
        kernel = add(sizes=(8,))
        assert "kernel void add" in kernel.source(queue, x=np.dtype(np.float32), a=np.dtype(np.float32))
        assert log == [("joins", 0), ("leads", 0), ("releases", 0)]
        with pytest.raises(RuntimeError, match="must be supplied"):
            add(sizes=(9,))(queue, a=1)
        with pytest.raises(cl.Error):
            add(code="no OpenCL C", sizes=(10,))(queue, x=cl.array.zeros(queue, 10, np.float32), a=1)
        assert sorted(number for what, number in log if what == "leads") == sorted(
            number for what, number in log if what == "releases"
        )

    def test_leaves_the_program_to_who_generates(self, queue, log, monkeypatch):
        """Who finds the code waits until the process that made it has the lead for the program, then for that."""
        x = cl.array.zeros(queue, 8, np.float32)
        add(sizes=(8,))(queue, x=x, a=1)
        log.clear()
        found = []
        kernel = add(sizes=(8,))
        values = {"x": x, "a": 1}
        assert kernel._line.generate.key() is not None
        held = process_leads.join(kernel._line.generate.together(CallValues(values), None), "add")
        monkeypatch.setattr(layers.binary(), "look_up", lambda *_: Answer(None, "miss", "", 0))
        other = cl.Context(queue.context.devices)

        def launch():
            there = cl.CommandQueue(other)
            y = cl.array.zeros(there, 8, np.float32)
            kernel(there, x=y, a=2)
            found.extend(y.get().tolist())

        thread = threading.Thread(target=launch)
        thread.start()
        end = time.monotonic() + 60
        while log.count(("joins", 0)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
        assert log == [("joins", 0), ("leads", 0), ("joins", 0)]
        held.release()
        thread.join()
        assert found == [2] * 8
        assert log[4:6] == [("waited", 0), ("joins", 1)]
