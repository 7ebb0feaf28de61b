"""kcl.cache.patience: makers that work are waited for, and those that do not are left behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from kcl.cache import patience
from kcl.cache.patience import Patience, Signs, Turn, signs_of, signs_of_thread

WORKING = "while True: pass"
IDLE = "import time; time.sleep(600)"


@pytest.fixture
def maker(request):
    """The id of a process that runs a code."""
    with subprocess.Popen([sys.executable, "-c", request.param]) as process:
        try:
            yield str(process.pid)
        finally:
            process.kill()


def waited(maker, longest=3.0):
    """Return the seconds until the patience with a maker is over, `longest` where that is longer."""
    started = time.monotonic()
    with Patience("matmul") as one:
        while not one.is_over(maker, signs_of(maker)) and time.monotonic() - started < longest:
            time.sleep(0.01)
    return time.monotonic() - started


class TestProcess:
    @pytest.mark.parametrize("maker", [WORKING], indirect=True)
    def test_works(self, maker):
        """A process that uses processor time is waited for."""
        assert waited(maker, 2.0) >= 2.0
        assert not patience._state().left_behind

    @pytest.mark.parametrize("maker", [IDLE], indirect=True)
    def test_idle(self, maker):
        """One that lives and does nothing is waited for for a second, in all waits together."""
        assert patience.IDLE_SECONDS <= waited(maker) < patience.IDLE_SECONDS + 1
        assert waited(maker) < 0.1  # it has done nothing since
        with subprocess.Popen([sys.executable, "-c", IDLE]) as other:
            time.sleep(0.5)
            assert patience.STOPPED_SECONDS <= waited(str(other.pid)) < patience.IDLE_SECONDS
            other.kill()

    @pytest.mark.parametrize("maker", [WORKING], indirect=True)
    def test_stopped(self, maker):
        """One that is stopped has a moment, and is waited for again when it goes on."""
        os.kill(int(maker), signal.SIGSTOP)
        assert patience.STOPPED_SECONDS <= waited(maker) < patience.IDLE_SECONDS
        assert waited(maker) < patience.STOPPED_SECONDS
        os.kill(int(maker), signal.SIGCONT)
        assert waited(maker, 0.5) >= 0.5

    @pytest.mark.parametrize("maker", [WORKING], indirect=True)
    def test_longest(self, maker, monkeypatch):
        """The longest wait is one of all waits together, and another maker has what is left."""
        monkeypatch.setattr(patience, "LONGEST_SECONDS", 0.4)
        assert 0.4 <= waited(maker) < 1.0
        assert waited(maker) < 0.3

    def test_unknown(self):
        """Of a process that the system does not know nothing is seen, so a second is enough."""
        assert signs_of("another") == Signs()
        assert patience.IDLE_SECONDS <= waited("another") < patience.IDLE_SECONDS + 1


class TestCrowd:
    def test_bound(self):
        """Where others share the core, a maker of which nothing is known may take as many times longer."""
        started = time.monotonic()
        with Patience("matmul") as one:
            while not one.is_over("another", Signs(), crowd=2.0):
                time.sleep(0.01)
        assert 2 * patience.IDLE_SECONDS <= time.monotonic() - started < 2 * patience.IDLE_SECONDS + 1

    def test_moment(self):
        """A crowd counts for as long as it is there."""
        started = time.monotonic()
        with Patience("matmul") as one:
            assert not one.is_over("another", Signs(), crowd=50.0)
            while not one.is_over("another", Signs()):
                time.sleep(0.01)
        assert time.monotonic() - started < patience.IDLE_SECONDS + 1

    def test_processes(self):
        """Processes that want to run count, and one is the least."""
        assert patience.crowd() >= 1
        working = [subprocess.Popen([sys.executable, "-c", WORKING]) for _ in range(4 * (os.cpu_count() or 1))]
        try:
            end = time.monotonic() + 10
            while patience.crowd() < 2 and time.monotonic() < end:
                time.sleep(0.01)
            assert patience.crowd() >= 2
        finally:
            for process in working:
                process.kill()
                process.wait()


class TestThread:
    def test_idle(self):
        """A thread that sleeps shows no work, one that waits itself does."""
        ready, end = threading.Event(), threading.Event()

        def work(patient):
            native.append(threading.get_native_id())
            if patient:
                with Patience("matmul"):
                    ready.set()
                    end.wait()
            ready.set()
            end.wait()

        for patient in (False, True):
            native, ready, end = [], threading.Event(), threading.Event()
            thread = threading.Thread(target=work, args=(patient,))
            thread.start()
            ready.wait()
            time.sleep(0.05)
            assert signs_of_thread(thread.ident, native[0]).runs == patient
            end.set()
            thread.join()
        assert not patience._state().waits

    def test_turns(self):
        """A thread that waits for its turn works as long as one of the threads that take turns with it does."""
        end, sleeper = threading.Event(), []

        def sleep():
            with Turn("compiler"):
                sleeper.append((threading.get_ident(), threading.get_native_id()))
                end.wait()

        thread = threading.Thread(target=sleep)
        thread.start()
        while not sleeper:
            time.sleep(0.001)
        time.sleep(0.05)
        alone = signs_of_thread(*sleeper[0])
        assert not alone.runs
        with Turn("another"):
            assert signs_of_thread(*sleeper[0]) == alone
        with Turn("compiler"):
            assert signs_of_thread(*sleeper[0]).runs
        assert signs_of_thread(*sleeper[0]) == alone
        end.set()
        thread.join()
        assert not any(patience._state().turns.values())

    def test_turn_of_a_forked_child(self):
        """A child has the turn of its one thread, by its own number, and gives it back."""
        turns = patience._state().turns
        with Turn("compiler"):
            pid = os.fork()
            here = turns["compiler"] == {threading.get_ident(): threading.get_native_id()}
        if pid == 0:
            os._exit(0 if here and not turns["compiler"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def test_nested(self):
        """A thread waits as long as one of its waits lasts: a signal handler may wait within a wait."""
        me = threading.get_ident()
        with Patience("outer"):
            with Patience("inner"):
                assert patience.waits(me)
            assert patience.waits(me)
        assert not patience.waits(me)


def test_shown(monkeypatch, caplog):
    """A wait is shown after two seconds, with for whom and for what, and ever less often."""
    monkeypatch.setattr(patience.time, "monotonic", iter([0, 1, 1.9, 2.5, 3, 4.9, 5.2, 9]).__next__)
    with caplog.at_level(logging.WARNING, "kcl"), Patience("matmul") as one:
        for _ in range(7):
            one.is_over("7", Signs(runs=True, spent=(b"1",)), "another thread")
    monkeypatch.undo()
    shown = [f"waiting {seconds} s for another thread: matmul" for seconds in (2, 5)]
    assert [record.getMessage() for record in caplog.records] == shown
