"""kcl.drivers.pocl.client: what a process asks of the helper, and how it waits for it."""

import os
import shutil
import signal
import threading

from promote_bench import LIMIT_SECONDS, Bench, until, works

from kcl.cache.locks import STOPPED, close_lock, sign, state_of
from kcl.drivers.pocl import client


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
        shutil.rmtree(bench.folder)
        until(lambda: not os.path.exists(f"/proc/{helper}"), "the end of the process")
        assert not os.path.exists(bench.folder)

    def test_work_goes_first(self, bench: Bench) -> None:
        """A job that another process writes at that moment is done, by this helper or by the next."""
        bench.request(0)
        assert client.idle(bench.folder, LIMIT_SECONDS)
        for number in (1, 2):
            bench.request(number)
            client.dismiss(bench.folder)
            assert client.idle(bench.folder, LIMIT_SECONDS, starts=True)
            assert bench.entry(number).metadata["complete"] is True

    def test_nobody_there(self, bench: Bench) -> None:
        """Without a helper nothing is written."""
        client.dismiss(bench.folder)
        assert not os.path.exists(bench.folder)


class TestQuiet:
    def test_drops_jobs(self, bench: Bench) -> None:
        """Jobs that wait for a helper are dropped, and there is nobody to wait for."""
        bench.queued(1)
        assert client.quiet(bench.folder, 5.0)
        assert bench.queue.jobs() == []

    def test_unsigned(self, bench: Bench) -> None:
        """The last helper's process is not asked to end if another one holds the lock."""
        bench.queued(1)
        held = bench.queue.lock()
        sign(held)
        close_lock(held)
        assert bench.queue.holder() == os.getpid()
        with bench.locked():
            assert not client.quiet(bench.folder, 0.1)
        assert client.quiet(bench.folder, 5.0)


class TestWait:
    def test_until_published(self, bench: Bench) -> None:
        """Whoever waits finds the entry when the job has gone."""
        bench.queued(1)
        client.wait(bench.folder, bench.key(1).digest, client.Stall(), LIMIT_SECONDS)
        assert bench.queue.find(bench.key(1).digest) is None
        assert bench.entry(1) is not None

    def test_most(self, bench: Bench) -> None:
        """The wait for a helper that shows no progress ends after `most` seconds, also within its patience."""
        bench.queued(1)
        stall = client.Stall()
        with bench.locked():
            waited = client.wait(bench.folder, bench.key(1).digest, stall, 3600, 0.1)
        assert waited >= 0.1
        assert stall.seconds <= waited

    def test_progress(self, bench: Bench) -> None:
        """The seconds without progress count over several waits, and from the start after each sign of progress."""
        bench.queued(1)
        digest = bench.key(1).digest
        with bench.locked():
            mark = bench.queue.progress()
            stall = client.Stall(60.0, mark)
            assert client.wait(bench.folder, digest, stall, 60) == 0.0
            assert (stall.seconds, stall.mark) == (60.0, mark)
            bench.queue.note_progress()
            waited = client.wait(bench.folder, digest, stall, 0.2)
        assert waited >= stall.seconds >= 0.2

    def test_threads(self, bench: Bench) -> None:
        """Threads that wait side by side are patient for as long as one alone."""
        bench.queued(1)
        stall, waited = client.Stall(), list[float]()

        def wait() -> None:
            waited.append(client.wait(bench.folder, bench.key(1).digest, stall, 0.5))

        with bench.locked():
            threads = [threading.Thread(target=wait) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(waited) == 4
        assert min(waited) >= 0.5

    def test_stopped(self, bench: Bench) -> None:
        """A process does not wait for a helper that is stopped."""
        bench.queued(1)
        with bench.helper() as helper:
            until(
                lambda: bench.queue.holder() == helper.pid, "the helper, and its name in the lock"
            )
            helper.send_signal(signal.SIGSTOP)
            try:
                until(lambda: state_of(str(helper.pid)) in STOPPED, "the stop")
                digest = bench.key(1).digest
                assert client.wait(bench.folder, digest, client.Stall(), 3600) == 0
            finally:
                helper.send_signal(signal.SIGCONT)
