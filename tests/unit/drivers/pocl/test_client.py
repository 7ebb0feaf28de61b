"""kcl.drivers.pocl.client: what a process asks of the helper, and how it waits for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from harness import ROOT
from promote_bench import LIMIT_SECONDS, Bench, until, works

from kcl.base import settings
from kcl.cache.patience import IDLE_SECONDS
from kcl.drivers.pocl import client
from kcl.drivers.pocl.jobs import AGAIN


class TestInit:
    def test_no_zombies(self) -> None:
        """A process that is number 1, as in a container, reaps the helpers that it started."""
        isolated = ["unshare", "-pf", "--mount-proc", *([] if os.geteuid() == 0 else ["-r"])]
        if shutil.which("unshare") is None or subprocess.run([*isolated, "true"], capture_output=True).returncode:
            pytest.skip("needs a namespace of process ids")
        code = (
            "import os, sys, time; from kcl.drivers.pocl import client; assert os.getpid() == 1\n"
            "for _ in range(3): client._spawn([sys.executable, '-c', 'pass'])\n"
            "def states():\n"
            "    others = [name for name in os.listdir('/proc') if name.isdigit() and name != '1']\n"
            "    return [open(f'/proc/{name}/stat').read().rpartition(')')[2].split()[0] for name in others]\n"
            "for _ in range(500):\n"
            "    time.sleep(0.02)\n"
            "    try:\n"
            "        if not set(states()) - {'Z'}: break\n"
            "    except OSError: pass\n"
            "time.sleep(0.2); print(states())"
        )
        command = [*isolated, sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert done.stdout.split() == ["[]"], done.stderr


class TestDismiss:
    """A helper that has nothing to do ends when it is told to, so that the folder can be removed."""

    def test_folder_can_be_removed(self, bench: Bench) -> None:
        """No helper and no directory of one is left, and nobody makes the folder again."""
        bench.request(1)
        assert client.idle(bench.folder, LIMIT_SECONDS)
        helper = bench.queue.holder()
        client.dismiss(bench.folder)
        assert not bench.queue.has_helper()
        assert works(bench) == []
        assert not bench.queue.is_dismissed()
        shutil.rmtree(bench.folder)
        until(lambda: not os.path.exists(f"/proc/{helper}"), "the end of the process")
        assert not os.path.exists(bench.folder)

    def test_work_goes_first(self, bench: Bench) -> None:
        """A job that another process writes at that moment is done, by this helper or by the next."""
        bench.request(0)
        assert client.idle(bench.folder, LIMIT_SECONDS)
        bench.queue.dismiss()
        for number in (1, 2):
            bench.request(number)
            assert client.idle(bench.folder, LIMIT_SECONDS, starts=True)
            assert bench.entry(number).metadata["complete"] is True

    def test_nobody_there(self, bench: Bench) -> None:
        """Without a helper nothing is written."""
        client.dismiss(bench.folder)
        assert not os.path.exists(bench.folder)

    def test_marker_of_the_past(self, bench: Bench) -> None:
        """What was left by a helper that was killed does not end the next one early."""
        bench.queued(1)
        bench.queue.dismiss()
        helper = bench.helper()
        assert client.idle(bench.folder, LIMIT_SECONDS)
        assert not bench.queue.is_dismissed()
        assert helper.wait(LIMIT_SECONDS) == 0


class TestWait:
    def test_nothing_pending(self, bench: Bench) -> None:
        """Without a job nothing is pending, waiting ends at once, and no directory is made."""
        digest = bench.key(0).digest
        assert not client.pending(bench.folder, digest)
        assert client.wait(bench.folder, digest, 1)
        assert client.idle(bench.folder, 1)
        client.start(bench.folder)
        assert not os.path.exists(bench.folder)

    def test_until_published(self, bench: Bench) -> None:
        """Whoever waits finds the entry when the job has gone."""
        bench.request(1)
        assert client.pending(bench.folder, bench.key(1).digest)
        assert client.wait(bench.folder, bench.key(1).digest, LIMIT_SECONDS)
        assert not client.pending(bench.folder, bench.key(1).digest)
        assert bench.entry(1) is not None

    def test_nobody_works(self, bench: Bench) -> None:
        """An old job without a helper is not waited for by a process that starts none."""
        client.leave_starting()
        bench.queued(1)
        self._age(bench)
        assert not client.wait(bench.folder, bench.key(1).digest, 3600)

    def test_starts_a_helper(self, bench: Bench) -> None:
        """Whoever waits can start a helper for the work that a killed one left."""
        bench.queued(1)
        client._state().last_starts.clear()
        self._age(bench)
        assert client.wait(bench.folder, bench.key(1).digest, LIMIT_SECONDS)
        assert bench.entry(1) is not None

    def test_failing_job(self, bench: Bench) -> None:
        """A job that killed a helper is not waited for, although one is alive."""
        bench.queued(1)
        (job,) = bench.queue.jobs()
        bench.queue.move(job, AGAIN)
        with bench.locked():
            assert not client.wait(bench.folder, bench.key(1).digest, 3600)

    def test_time_is_over(self, bench: Bench) -> None:
        """Waiting ends when time is over, whatever the helper does."""
        bench.queued(1)
        with bench.locked():
            assert not client.wait(bench.folder, bench.key(1).digest, 0.05)
            assert not client.idle(bench.folder, 0.05)

    def test_stopped(self, bench: Bench) -> None:
        """A helper that is stopped is waited for once, for a moment."""
        bench.queued(1)
        with bench.helper() as helper:
            until(lambda: bench.queue.holder() == helper.pid, "the helper, and its name in the lock")
            helper.send_signal(signal.SIGSTOP)
            digest = bench.key(1).digest
            try:
                if bench.queue.state(digest) is not None:  # else it was faster
                    started = time.monotonic()
                    assert not client.wait(bench.folder, digest, 3600)
                    assert not client.wait(bench.folder, digest, 3600)
                    assert time.monotonic() - started < IDLE_SECONDS
            finally:
                helper.send_signal(signal.SIGCONT)

    def test_does_nothing(self, bench: Bench) -> None:
        """A helper that lives and does nothing is waited for once, for a second."""
        bench.queued(1)
        code = "import time; from kcl.drivers.pocl.jobs import JobQueue"
        code += f"; print(JobQueue({bench.folder!r}).lock(), flush=True)"
        command = [sys.executable, "-c", f"{code}; time.sleep(600)"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**settings.environment(), "PYTHONPATH": str(ROOT)}
        ) as helper:
            try:
                assert helper.stdout is not None
                assert helper.stdout.readline().strip().isdigit()
                started = time.monotonic()
                assert not client.wait(bench.folder, bench.key(1).digest, 3600)
                once = time.monotonic()
                assert not client.wait(bench.folder, bench.key(1).digest, 3600)
                assert IDLE_SECONDS <= once - started < IDLE_SECONDS + 1
                assert time.monotonic() - once < 0.5
            finally:
                helper.kill()

    def test_recorded_seconds(self, bench: Bench) -> None:
        """A job says how long its program took to build; of a job that is not there nothing is known."""
        bench.queued(1)
        assert client.recorded_seconds(bench.folder, bench.key(1).digest) == 0.5
        assert client.recorded_seconds(bench.folder, bench.key(0).digest) is None

    def _age(self, bench: Bench) -> None:
        (job,) = bench.queue.jobs()
        os.utime(f"{bench.queue.folder}/{job.state}/{job.digest}", (job.written - 60, job.written - 60))
