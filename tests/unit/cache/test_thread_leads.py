"""kcl.cache.thread_leads: the threads of a process wait for one maker, never for themselves, and never for long."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import interrupted
import interrupted_import
import pytest
from at_once import at_once
from harness import PLATFORMS

from kcl.cache import patience, thread_leads
from kcl.cache.thread_leads import ThreadLead, ThreadLeads


def nothing():
    """Let go of nothing before a wait."""


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

    @property
    def waits(self):
        """Whether the thread waits for a maker."""
        return self._thread.ident in thread_leads._state().awaited


def until(condition, seconds=20.0):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


class TestWait:
    def test_one_maker(self):
        """A key has one maker at a time, and keys do not know of each other."""
        table = ThreadLeads()
        mine = table.lead("a")
        assert table.lead("a") is None
        assert table.lead("b") is not None
        mine.release()
        mine.release()
        assert table.lead("a") is not None

    def test_until_it_lands(self):
        """Threads that wait go on, all of them, when the maker releases."""
        table = ThreadLeads()
        mine = table.lead("a")
        threads = [InThread(lambda: table.wait("a", "matmul")) for _ in range(4)]
        until(lambda: all(thread.waits for thread in threads))
        mine.release()
        assert [thread.ended() for thread in threads] == [True] * 4

    def test_nobody_makes_it(self):
        """A key without a maker is not waited for."""
        assert ThreadLeads().wait("a", "matmul")

    def test_own(self):
        """A thread does not wait for itself: a signal handler or a finaliser may want what the thread is making."""
        table = ThreadLeads()
        table.lead("a")
        started = time.monotonic()
        assert not table.wait("a", "matmul")
        assert time.monotonic() - started < 1

    def test_circle(self):
        """Of threads that would wait for each other, in a circle, one goes on alone and lets the others go on."""
        table, together = ThreadLeads(), threading.Barrier(3)

        def work(number):
            mine = table.lead(str(number))
            together.wait()
            released = table.wait(str((number + 1) % 3), "matmul")
            mine.release()
            return released

        started = time.monotonic()
        threads = [InThread(lambda number=number: work(number)) for number in range(3)]
        assert False in [thread.ended() for thread in threads]
        assert time.monotonic() - started < 5

    def test_landed(self):
        """A maker that waited for this thread, and was let go on a moment ago, is waited for."""
        table, begun, end = ThreadLeads(), threading.Event(), threading.Event()

        def work():
            mine = table.lead("a")
            thread_leads._state().awaited[threading.get_ident()] = earlier  # it has not woken up yet
            begun.set()
            end.wait()
            mine.release()

        earlier = table.lead("b")
        maker = InThread(work)
        begun.wait()
        assert not table.wait("a", "matmul")  # a circle
        earlier.release()
        threading.Timer(0.2, end.set).start()
        assert table.wait("a", "matmul")
        maker.ended()

    def test_bounded(self, monkeypatch, caplog):
        """A thread that has waited too long goes on alone, and nobody else waits for that maker; the wait is shown."""
        monkeypatch.setattr(patience, "IDLE_SECONDS", 0.3)
        monkeypatch.setattr(patience, "SHOWN_SECONDS", 0.1)
        table = ThreadLeads()
        mine = table.lead("a")
        with caplog.at_level(logging.WARNING, "kcl"):
            assert InThread(lambda: table.wait("a", "matmul")).ended() is False
        assert "another thread of this process: matmul" in caplog.text
        heir = InThread(lambda: table.lead("a")).ended()
        assert heir is not None
        mine.release()
        assert table.lead("a") is None

    def test_forked(self, child):
        """A forked child waits for no maker of its parent, and lets none release."""
        found = child.json(
            """
            import json, os, threading
            from kcl.cache.thread_leads import ThreadLeads
            table = ThreadLeads()
            led = threading.Event()
            mine = []
            threading.Thread(target=lambda: (mine.append(table.lead("a")), led.set())).start()
            led.wait()
            pid = os.fork()
            if not pid:
                heir = table.lead("a")
                mine[0].release()
                os._exit(0 if heir and table.lead("a") is None and table.wait("b", "") else 1)
            _, status = os.waitpid(pid, 0)
            print(json.dumps([status, table.lead("a") is None]))
            """
        )
        assert found == [0, True]

    def test_signal_handler(self):
        """A signal handler in a thread that waits makes another key, and does not wait for one of its own thread."""
        table, said = ThreadLeads(), []
        InThread(lambda: table.lead("a")).ended()

        def handler(_number, _frame):
            with table.turn("b", "matmul", nothing), table.turn("b", "matmul", nothing):
                said.append("made")
            table._table["a"].release()

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            assert table.wait("a", "matmul")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert said == ["made"]
        assert not thread_leads._state().awaited


class TestInterrupted:
    @pytest.mark.one_platform
    def test_handler_that_launches(self, child, platform_name):
        """A signal handler that launches the very kernels that its thread is making does not wait for that thread."""
        command = [sys.executable, interrupted.__file__, PLATFORMS[platform_name]]
        environment = child.environment(KCL_PROMOTE="off")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        calls, longest = done.stdout.split()
        assert int(calls) > 0
        assert float(longest) < 25

    @pytest.mark.one_platform
    def test_handler_during_an_import(self, child, platform_name):
        """A signal handler that launches a kernel of loopy waits for the import of loopy that it interrupted."""
        assert self.imported(child, platform_name, "kcl") == ["39.0", "19.0"]

    @pytest.mark.one_platform
    @pytest.mark.parametrize("module", ["loopy", "pymbolic"])
    def test_handler_during_the_programs_import(self, child, platform_name, module):
        """Where the program's own import is interrupted the handler waits for nothing that needs its thread."""
        first, second = self.imported(child, platform_name, module)
        assert first == "39.0"
        assert second in ("19.0", "AttributeError", "ImportError")  # of a module that is half imported

    def imported(self, child, platform_name, module):
        """Return what a process and its handler said that interrupts an import, by kcl or of a module."""
        command = [sys.executable, interrupted_import.__file__, PLATFORMS[platform_name], module]
        done = subprocess.run(command, env=child.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    @pytest.mark.timeout(30)
    def test_handler_during_the_landing(self, monkeypatch):
        """A signal handler that comes as a maker releases is the next maker."""
        table, leave, seen = ThreadLeads(), ThreadLead._leave, []

        def interrupted_leave(maker):
            if not seen:
                seen.append("signal")
                os.kill(os.getpid(), signal.SIGUSR1)
            leave(maker)

        def handler(_number, _frame):
            with table.turn("a", "matmul", nothing):
                seen.append("handler")

        monkeypatch.setattr(ThreadLead, "_leave", interrupted_leave)
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with table.turn("a", "matmul", nothing):
                pass
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert seen == ["signal", "handler"]


class TestTurn:
    def test_one_after_the_other(self):
        """Threads enter the block of a key one at a time."""
        table, inside, most = ThreadLeads(), [], []

        def work(number):
            for _ in range(50):
                with table.turn("a", "matmul", nothing):
                    inside.append(number)
                    most.append(len(inside))
                    inside.remove(number)

        at_once(work)
        assert len(most) == 400
        assert set(most) == {1}

    def test_lets_go_before_it_waits(self):
        """A thread that must wait is asked before to let go of what others wait for; one that need not is not."""
        table, said = ThreadLeads(), []
        with table.turn("a", "matmul", lambda: said.append("first")):
            thread = InThread(lambda: table.turn("a", "matmul", lambda: said.append("second")).__enter__())
            until(lambda: thread.waits)
        thread.ended()
        assert said == ["second"]

    def test_error(self):
        """An error within the block ends the turn."""
        table = ThreadLeads()
        with pytest.raises(OSError), table.turn("a", "matmul", nothing):
            raise OSError(os.strerror(28))
        assert table.lead("a") is not None
