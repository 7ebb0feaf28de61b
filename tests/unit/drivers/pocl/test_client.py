"""kcl.drivers.pocl.client: what a process asks of the helper, and how it waits for it."""

from __future__ import annotations

import os
import signal

from promote_bench import LIMIT_SECONDS, Bench, until

from kcl import settings
from kcl.drivers.pocl import client
from kcl.drivers.pocl.jobs import AGAIN


class TestWait:
    def test_nothing_pending(self, bench: Bench) -> None:
        """Without a job nothing is pending, waiting ends at once, and no directory is made."""
        digest = bench.key(0).digest
        assert not client.pending(bench.folder, digest)
        assert client.wait(bench.folder, digest, 1)
        assert client.idle(bench.folder, 1)
        client.start(bench.folder, settings.environment())
        assert not os.path.exists(bench.folder)

    def test_until_published(self, bench: Bench) -> None:
        """Whoever waits finds the entry when the job has gone."""
        bench.request(1)
        assert client.pending(bench.folder, bench.key(1).digest)
        assert client.wait(bench.folder, bench.key(1).digest, LIMIT_SECONDS)
        assert not client.pending(bench.folder, bench.key(1).digest)
        assert bench.entry(1) is not None

    def test_nobody_works(self, bench: Bench) -> None:
        """An old job without a helper is not waited for."""
        bench.queued(1)
        self._age(bench)
        assert not client.wait(bench.folder, bench.key(1).digest, 3600)

    def test_starts_a_helper(self, bench: Bench) -> None:
        """Whoever waits can start a helper for the work that a killed one left."""
        bench.queued(1)
        client._state().last_starts.clear()
        self._age(bench)
        assert client.wait(bench.folder, bench.key(1).digest, LIMIT_SECONDS, settings.environment())
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
        """A helper that is stopped is waited for once, for a moment; when it goes on it is waited for again."""
        bench.queued(1)
        with bench.helper() as helper:
            until(lambda: bench.queue.holder() == helper.pid, "the helper, and its name in the lock")
            helper.send_signal(signal.SIGSTOP)
            digest = bench.key(1).digest
            try:
                if bench.queue.state(digest) is not None:  # else it was faster
                    assert not client.wait(bench.folder, digest, 3600)
                    assert not client.wait(bench.folder, digest, 3600)
                    assert client._state().left_behind == {str(helper.pid)}
            finally:
                helper.send_signal(signal.SIGCONT)
            assert client.wait(bench.folder, digest, LIMIT_SECONDS)
            client._state().left_behind.clear()

    def _age(self, bench: Bench) -> None:
        (job,) = bench.queue.jobs()
        os.utime(f"{bench.queue.folder}/{job.state}/{job.digest}", (job.written - 60, job.written - 60))
