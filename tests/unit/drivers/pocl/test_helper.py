"""kcl.drivers.pocl.client and the helper: one process per folder, that ends by itself and survives what happens."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import run_command
from promote_bench import LIMIT_SECONDS, ROOT, begun, python, until, works

from kcl.base import settings
from kcl.drivers.pocl import client, jobs, poclbin
from kcl.errors import CacheFault

SILENT = {"stderr": subprocess.DEVNULL}
ASK = """
    import json, sys, time
    from kcl.drivers.pocl import client
    from kcl.cache.entry import Entry

    folder, names = sys.argv[1], json.loads(sys.argv[2])
    for address, path in names:
        with open(path, "rb") as stream:
            client.request(folder, address, Entry.unpack(stream.read()))
            client.start(folder)
    print(json.dumps(client.idle(folder, 60)))
"""


# Before the helper: a worker that gets a signal as it begins a job. LLVM's handler takes itself away at the first one
# and returns, since a fault would come again.
CRASH = """
import os, signal
from kcl.drivers.pocl.complete import Workshop

def make(self, job, written, real=Workshop.make):
    if job.metadata["kernel"] == "f":
        for _ in range(2):
            os.kill(os.getpid(), signal.{name})
    return real(self, job, written)

Workshop.make = make
"""


class TestLife:
    def test_ends_by_itself(self, bench):
        """When the work is done the helper ends and leaves nothing but entries; it is no child of the one who asks."""
        before = _children()  # of other tests
        bench.request(0, 1, 2)
        assert _children() <= before
        assert client.idle(bench.folder, LIMIT_SECONDS)
        until(lambda: not bench.queue.has_helper() and not works(bench), "the helper's end")
        assert bench.left() == []
        assert bench.are_complete(0, 1, 2)

    def test_the_helper_can_be_started_by_hand_as_the_modules_docstring_says(self, bench):
        bench.queued(1)
        command = [sys.executable, "-m", "kcl.drivers.pocl.helper", bench.folder]
        environment = {**settings.environment(), "PYTHONPATH": str(ROOT)}
        assert run_command(command, env=environment, cwd=bench.root).returncode == 0
        assert bench.entry(1) is not None

    def test_one_for_two_processes(self, bench):
        """Two processes that ask at the same time have one helper between them, and it does the work of both."""
        halves = [[], []]
        for number in range(3):
            path = bench.root / f"{number}.job"
            path.write_bytes(bench.job(number).pack())
            halves[number % 2].append((bench.address(number), str(path)))
        with ThreadPoolExecutor(2) as pool:
            askers = [pool.submit(python, ASK, bench.folder, json.dumps(half)) for half in halves]
            at_once = 0
            while not all(asker.done() for asker in askers):
                # A slow machine may have one helper after the other.
                at_once = max(at_once, len(set(works(bench))))
                time.sleep(0.001)
        assert [asker.result() for asker in askers] == [True, True]
        assert at_once == 1
        assert all(map(bench.entry, range(3)))

    def test_a_job_is_done_under_the_variables_of_its_process(self, bench):
        bench.queued(1)
        bench.work(variables={"POCL_WORK_GROUP_METHOD": "loops"})
        assert bench.are_complete(1)
        assert bench.left() == []

    def test_beside_ranks(self, bench):
        """A helper of a process under an MPI launcher ends some seconds after that process, and its jobs stay."""
        bench.queued(0, 1)
        rank = subprocess.Popen(["true"])
        rank.wait()
        code = "helper.AFTER_RANK_SECONDS = 0.0"
        bench.work(code=code, arguments=["", str(rank.pid)])
        assert len(bench.queue.jobs()) == 2
        assert works(bench) == []

    def test_processors_beside_ranks(self, bench):
        """Beside a rank it has all processors, not the one of the rank alone."""
        bench.queued(0)
        # Tests beside it use the processors.
        code = f"""
            import os
            helper.NICENESS_BESIDE_RANKS = 0
            os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
            run = helper.Helper.run

            def seen(self):
                with open({str(bench.root / "mask")!r}, "w") as stream:
                    stream.write(str(sorted(os.sched_getaffinity(0))))
                run(self)

            helper.Helper.run = seen
        """
        bench.work(code=code, arguments=["", str(os.getpid())])
        assert bench.left() == []
        assert (bench.root / "mask").read_text() == str(sorted(os.sched_getaffinity(0)))

    def test_lacking_device(self, bench):
        """A job for a device that this host lacks stays; it is named, and the other jobs are done."""
        bench.queued(0, device={"name": "another", "driver": "1"})
        bench.queued(1)
        bench.work()
        (job,) = bench.queue.jobs()
        assert bench.queue.is_lacking(job.setting)
        assert not bench.queue.due()
        assert bench.entry(1) is not None
        assert client.idle(bench.folder, 0.0)

    def test_unknown_container(self, bench, monkeypatch):
        """Where PoCL writes an unknown container no entry is made, no further job is written, and people are told."""
        bench.queued(0, 1)
        bench.work(code="from kcl.drivers.pocl import poclbin\npoclbin.VERSIONS = ()")
        assert (bench.queue.jobs(), bench.entry(0), bench.entry(1)) == ([], None, None)
        assert bench.queue.unknown() == []  # by this kcl
        monkeypatch.setattr(poclbin, "VERSIONS", ())
        (version,) = bench.queue.unknown()
        bench.queued(0)
        assert bench.queue.jobs() == []
        (said,) = jobs.pending(bench.folder).described()
        assert f"does not read PoCL's binaries of container version {version}" in said


class TestKilled:
    @pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)])
    def test_work_is_taken_up(self, bench, number, status):
        """The next helper does all jobs of one that was ended in the middle of one; none counts as tried."""
        bench.queued(0, 1, 2)
        helper = bench.helper()
        until(lambda: begun(bench), "the first job")
        helper.send_signal(number)
        assert helper.wait(LIMIT_SECONDS) == status
        assert (works(bench) == []) is (status == 0)
        assert bench.queue.jobs()
        bench.work()
        assert bench.left() == []
        assert bench.are_complete(0, 1, 2)

    def test_at_any_moment(self, bench):
        """Helpers killed at five moments of their lives leave whole entries or none, and nothing in the way."""
        for moment in range(5):
            bench.queued(1, 2)
            helper = bench.helper()
            time.sleep(0.06 * moment)
            helper.kill()
            helper.wait()
        bench.queued(1, 2)
        bench.work()
        bench.queue.sweep()  # a linker that outlived its worker may have written late
        assert bench.left() == []
        said = bench.load(1, 2)
        assert said["results"] == bench.user.results[1:]
        assert said["generated"] == []

    @pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS"])
    @pytest.mark.slow_cases(2)
    def test_worker(self, bench, name):
        """A job at which a worker crashes is dropped, which is said, and that of a killed one stays; others are done."""
        bench.queued(0, 1)
        bench.work(code=CRASH.format(name=name))
        assert bench.are_complete(1)
        assert bench.entry(0) is None
        if name != "SIGKILL":
            assert bench.queue.jobs() == []
            assert bench.queue.failures() == [f"f: PoCL ended with {name}"]
            return
        assert len(bench.queue.jobs()) == 1
        bench.work()
        assert bench.are_complete(0)


class TestFaults:
    @pytest.mark.parametrize("place", ["kcl", "kcl/pending"])
    def test_in_a_folder_that_others_can_write_the_helper_does_nothing(self, bench, place):
        bench.queued(1)
        (bench.root / place).chmod(0o777)
        bench.work()
        assert bench.entry(1) is None
        (bench.root / place).chmod(0o700)
        assert len(bench.queue.jobs()) == 1

    def test_untrusted_store(self, bench):
        """Nothing is published into a store that others can write; the reason is said until the job is done."""
        place = pathlib.Path(bench.store.location)
        place.mkdir(mode=0o700)
        for mode, words in (
            (0o777, "1 program could not be completed: only: UnusableDirectory: "),
            (0o700, ""),
        ):
            place.chmod(mode)
            bench.queued(1)
            bench.work()
            assert bool(os.listdir(place)) is (mode == 0o700)
            assert bench.queue.jobs() == []
            assert "".join(jobs.pending(bench.folder).described()).startswith(words)
        assert bench.left() == jobs.pending(bench.folder).described() == []

    @pytest.mark.parametrize("limit", [0, 4096, 60_000])
    @pytest.mark.slow_cases(3)
    def test_full_disk(self, bench, limit):
        """Where files cannot grow the helper ends, publishes nothing torn, and the next one can do the work."""
        bench.queued(0)
        limits = (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        full = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)}
        bench.helper(**full, **SILENT).wait(LIMIT_SECONDS)
        assert bench.entry(0) is None
        bench.queued(0)
        bench.work()
        assert bench.are_complete(0)
        assert bench.left() == []

    def test_where_the_whole_cache_is_removed_under_it_the_helper_ends(self, bench):
        bench.queued(0, 1, 2)
        helper = bench.helper(**SILENT)
        until(lambda: works(bench), "the helper")
        shutil.rmtree(bench.folder, ignore_errors=True)
        helper.wait(LIMIT_SECONDS)
        bench.completed(1)
        assert bench.entry(1) is not None

    def test_folder_made_anew(self, bench):
        """A helper whose folder was removed under it leaves the jobs of the new folder to a new helper."""
        for _ in range(2):
            assert bench.completed(1) is not None
            # The helper waits for more jobs by now.
            shutil.rmtree(bench.folder, ignore_errors=True)
            shutil.rmtree(bench.store.location)

    def test_damaged_job(self, bench):
        """Jobs that are damaged, or lack what a job has, are dropped; the others are done."""
        bench.queued(0)
        (job,) = bench.queue.jobs()
        path = pathlib.Path(bench.queue.folder, job.address)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        bench.queue.add(bench.job(2))  # no address, no process: nothing of what `request` adds
        bench.queued(1)
        bench.work()
        assert bench.queue.jobs() == []
        assert bench.queue.failures() == ["inc: KeyError: 'address'"]
        assert [bench.entry(number) is None for number in range(3)] == [True, False, True]

    def test_failing_request(self, bench):
        """A folder in which no job can be written is an error of the one who asks, who goes on without."""
        pathlib.Path(bench.folder).write_text("a file in the place of the folder")
        with pytest.raises((OSError, CacheFault)):
            bench.request(1)

    def test_no_application_is_started_as_a_helper(self, bench, monkeypatch):
        monkeypatch.setattr(sys, "executable", "/usr/bin/application")
        bench.request(1)
        assert len(bench.queue.jobs()) == 1


def _children():
    """Return the processes that are children of this one."""
    tasks = pathlib.Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}
