"""kcl.drivers.pocl.client: what a process asks of the helper, and how it waits for it."""

import os
import shutil
import signal

from at_once import at_once
from promote_bench import LIMIT_SECONDS, until, works

from kcl.cache.locks import STOPPED, close_lock, sign, state_of
from kcl.drivers.pocl import client


class TestDismiss:
    """A helper that has nothing to do ends when it is told to, so that the folder can be removed."""

    def test_folder_can_be_removed(self, bench):
        """No helper and no directory of one is left, and nobody makes the folder again; without a helper no more."""
        bench.completed(1)
        helper = bench.queue.holder()
        client.dismiss(bench.folder)
        assert not bench.queue.has_helper()
        assert works(bench) == []
        shutil.rmtree(bench.folder)
        until(lambda: not os.path.exists(f"/proc/{helper}"), "the end of the process")
        client.dismiss(bench.folder)
        assert not os.path.exists(bench.folder)

    def test_work_goes_first(self, bench):
        """A job that another process writes at that moment is done, by this helper or by the next."""
        bench.completed(0)
        for number in (1, 2):
            bench.request(number)
            client.dismiss(bench.folder)
            assert client.idle(bench.folder, LIMIT_SECONDS, starts=True)
            assert bench.are_complete(number)


def test_quiet(bench):
    """Jobs that wait are dropped; the last helper's process is not asked to end if another one holds the lock."""
    bench.queued(1)
    held = bench.queue.lock()
    sign(held)
    close_lock(held)
    assert bench.queue.holder() == os.getpid()
    with bench.locked():
        assert not client.quiet(bench.folder, 0.1)
    assert client.quiet(bench.folder, 5.0)
    assert bench.queue.jobs() == []


class TestWait:
    def test_whoever_waits_finds_the_entry_when_the_job_has_gone(self, bench):
        bench.queued(1)
        client.wait(bench.folder, bench.key(1).digest, client.Stall(), LIMIT_SECONDS)
        assert bench.queue.find(bench.key(1).digest) is None
        assert bench.entry(1) is not None

    def test_most(self, bench):
        """The wait for a helper that shows no progress ends after `most` seconds, also within its patience."""
        bench.queued(1)
        stall = client.Stall()
        with bench.locked():
            waited = client.wait(bench.folder, bench.key(1).digest, stall, 3600, 0.1)
        assert waited >= 0.1
        assert stall.seconds <= waited

    def test_progress(self, bench):
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

    def test_threads(self, bench):
        """Threads that wait side by side are patient for as long as one alone."""
        bench.queued(1)
        stall, digest, waited = client.Stall(), bench.key(1).digest, []
        with bench.locked():
            at_once(lambda _: waited.append(client.wait(bench.folder, digest, stall, 0.5)), 4)
        assert min(waited) >= 0.5

    def test_a_stopped_helper_is_not_waited_for(self, bench):
        bench.queued(1)
        with bench.helper() as helper:
            until(
                lambda: bench.queue.holder() == helper.pid, "the helper, and its name in the lock"
            )
            helper.send_signal(signal.SIGSTOP)
            try:
                until(lambda: state_of(str(helper.pid)) in STOPPED, "the stop")
                assert client.wait(bench.folder, bench.key(1).digest, client.Stall(), 3600) == 0
            finally:
                helper.send_signal(signal.SIGCONT)
