"""kcl.drivers.pocl.client and the helper: one process per folder, that ends by itself and survives what happens."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from promote_bench import LIMIT_SECONDS, ROOT, Bench, begun, python, until, works

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
    if {when}:
        for _ in range(2):
            os.kill(os.getpid(), signal.{name})
    return real(self, job, written)

Workshop.make = make
"""


class TestLife:
    def test_ends_by_itself(self, bench: Bench) -> None:
        """When the work is done the helper ends and leaves no directory, no job and no temporary file."""
        for number in range(3):
            bench.request(number)
        assert client.idle(bench.folder, LIMIT_SECONDS)
        until(lambda: not bench.queue.has_helper() and not works(bench), "the helper's end")
        assert bench.left() == []
        assert all(bench.entry(number) for number in range(3))

    def test_by_hand(self, bench: Bench) -> None:
        """The helper can be started by hand, as the module's docstring says."""
        bench.queued(1)
        command = [sys.executable, "-m", "kcl.drivers.pocl.helper", bench.folder]
        environment = {**settings.environment(), "PYTHONPATH": str(ROOT)}
        assert (
            subprocess.run(
                command, env=environment, cwd=bench.root, timeout=LIMIT_SECONDS
            ).returncode
            == 0
        )
        assert bench.entry(1) is not None

    def test_one_for_two_processes(self, bench: Bench) -> None:
        """Two processes that ask at the same time have one helper between them, and it does the work of both."""
        halves: list[list[tuple[str, str]]] = [[], []]
        for number in range(3):
            halves[number % 2].append((bench.address(number), str(_written(bench, number))))
        ends: list[bool] = []
        askers = [
            threading.Thread(
                target=lambda half=half: ends.append(python(ASK, bench.folder, json.dumps(half)))
            )
            for half in halves
        ]
        for asker in askers:
            asker.start()
        at_once = 0
        while any(asker.is_alive() for asker in askers):
            at_once = max(
                at_once, len(set(works(bench)))
            )  # a slow machine may have one helper after the other
            time.sleep(0.001)
        assert ends == [True, True]
        assert at_once == 1
        assert all(bench.entry(number) for number in range(3))

    def test_no_child_remains(self, bench: Bench) -> None:
        """The process that asks has no child afterwards, and its helper is in another session."""
        before = _children()  # of other tests
        bench.request(1)
        assert _children() <= before
        assert client.idle(bench.folder, LIMIT_SECONDS)

    def test_other_variables(self, bench: Bench) -> None:
        """A job of a process with other variables of the driver is done under those."""
        bench.queued(1)
        bench.work(variables={"POCL_WORK_GROUP_METHOD": "loops"})
        assert bench.entry(1).metadata["complete"] is True
        assert bench.left() == []

    def test_told_to_end(self, bench: Bench) -> None:
        """SIGTERM ends the helper and its worker; the job is as good as new, the directory gone."""
        bench.queued(0)
        bench.queued(1)
        helper = bench.helper()
        until(lambda: begun(bench), "the first job")
        helper.send_signal(signal.SIGTERM)
        assert helper.wait(LIMIT_SECONDS) == 0
        assert works(bench) == []
        assert bench.queue.jobs()
        bench.work()
        assert bench.entry(0).metadata["complete"] is True

    def test_beside_ranks(self, bench: Bench) -> None:
        """A helper of a process under an MPI launcher ends some seconds after that process, and its jobs stay."""
        for number in (0, 1):
            bench.queued(number)
        rank = subprocess.Popen(["sleep", "0"])
        rank.wait()
        code = "helper.AFTER_RANK_SECONDS = 0.0"
        assert bench.helper(code=code, arguments=["", str(rank.pid)]).wait(LIMIT_SECONDS) == 0
        assert len(bench.queue.jobs()) == 2
        assert works(bench) == []
        # tests beside it use the processors
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
        assert bench.helper(code=code, arguments=["", str(os.getpid())]).wait(LIMIT_SECONDS) == 0
        assert bench.left() == []
        # not the core of the rank alone
        assert (bench.root / "mask").read_text() == str(sorted(os.sched_getaffinity(0)))

    def test_lacking_device(self, bench: Bench) -> None:
        """A job for a device that this host lacks stays; it is named, and the other jobs are done."""
        bench.queued(0, device={"name": "another", "driver": "1"})
        bench.queued(1)
        bench.work()
        (job,) = bench.queue.jobs()
        assert bench.queue.is_lacking(job.setting)
        assert not bench.queue.due()
        assert bench.entry(1) is not None
        assert client.idle(bench.folder, 0.0)

    def test_unknown_container(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where PoCL writes an unknown container no entry is made, no further job is written, and people are told."""
        for number in (0, 1):
            bench.queued(number)
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
    def test_work_is_taken_up(self, bench: Bench) -> None:
        """The next helper does all jobs of a helper that was killed in the middle of one; none counts as tried."""
        for number in range(3):
            bench.queued(number)
        helper = bench.helper()
        until(lambda: begun(bench), "the first job")
        helper.kill()
        assert helper.wait() == -signal.SIGKILL
        assert bench.queue.jobs()
        bench.work()
        assert bench.left() == []
        for number in range(3):
            assert bench.entry(number).metadata["complete"] is True

    def test_at_any_moment(self, bench: Bench) -> None:
        """Helpers killed at five moments of their lives leave whole entries or none, and nothing in the way."""
        for moment in range(5):
            bench.queued(1)
            bench.queued(2)
            helper = bench.helper()
            time.sleep(0.06 * moment)
            helper.kill()
            helper.wait()
        bench.queued(1)
        bench.queued(2)
        bench.work()
        bench.queue.sweep()  # a linker that outlived its worker may have written late
        assert bench.left() == []
        said = bench.load(1, 2)
        assert said["results"] == bench.user.results[1:]
        assert said["generated"] == []

    @pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS"])
    @pytest.mark.slow_cases(3)
    def test_crash(self, bench: Bench, name: str) -> None:
        """A job at which a worker crashes is dropped, which is said; the other jobs are done."""
        bench.queued(0)
        bench.queued(1)
        bench.work(code=CRASH.format(name=name, when="job.metadata['kernel'] == 'f'"))
        assert bench.queue.jobs() == []
        assert bench.queue.failures() == [f"f: PoCL ended with {name}"]
        assert bench.entry(0) is None
        assert bench.entry(1).metadata["complete"] is True

    def test_killed_worker(self, bench: Bench) -> None:
        """The job of a worker that is killed from outside stays for the next helper; this one does the others."""
        bench.queued(0)
        bench.queued(1)
        bench.work(code=CRASH.format(name="SIGKILL", when="job.metadata['kernel'] == 'f'"))
        assert len(bench.queue.jobs()) == 1
        assert bench.entry(1).metadata["complete"] is True
        bench.work()
        assert bench.entry(0).metadata["complete"] is True


class TestFaults:
    @pytest.mark.parametrize("place", ["kcl", "kcl/pending"])
    def test_untrusted_folder(self, bench: Bench, place: str) -> None:
        """In a folder that others can write the helper does nothing."""
        bench.queued(1)
        (bench.root / place).chmod(0o777)
        bench.work()
        assert bench.entry(1) is None
        (bench.root / place).chmod(0o700)
        assert len(bench.queue.jobs()) == 1

    def test_untrusted_store(self, bench: Bench) -> None:
        """Nothing is published into a store that others can write; the reason is said until the job is done."""
        pathlib.Path(bench.store.location).mkdir(mode=0o700)
        pathlib.Path(bench.store.location).chmod(0o777)
        bench.queued(1)
        bench.work()
        assert os.listdir(bench.store.location) == []
        assert bench.queue.jobs() == []
        (words,) = jobs.pending(bench.folder).described()
        assert words.startswith("1 program could not be completed: only: UnusableDirectory: ")
        pathlib.Path(bench.store.location).chmod(0o700)
        bench.queued(1)
        bench.work()
        assert jobs.pending(bench.folder).described() == []
        assert bench.left() == []

    @pytest.mark.parametrize("limit", [0, 4096, 60_000])
    @pytest.mark.slow_cases(3)
    def test_full_disk(self, bench: Bench, limit: int) -> None:
        """Where files cannot grow the helper ends, publishes nothing torn, and the next one can do the work."""
        bench.queued(0)
        limits = (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        bench.helper(
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits), **SILENT
        ).wait(LIMIT_SECONDS)
        assert bench.entry(0) is None
        bench.queued(0)
        bench.work()
        assert bench.entry(0).metadata["complete"] is True
        assert bench.left() == []

    def test_folder_vanishes(self, bench: Bench) -> None:
        """Where the whole cache is removed under it the helper ends."""
        for number in range(3):
            bench.queued(number)
        helper = bench.helper(**SILENT)
        until(lambda: works(bench), "the helper")
        shutil.rmtree(bench.folder, ignore_errors=True)
        helper.wait(LIMIT_SECONDS)
        bench.request(1)
        assert client.idle(bench.folder, LIMIT_SECONDS)
        assert bench.entry(1) is not None

    def test_folder_made_anew(self, bench: Bench) -> None:
        """A helper whose folder was removed under it leaves the jobs of the new folder to a new helper."""
        for _ in range(2):
            bench.request(1)
            assert client.idle(bench.folder, LIMIT_SECONDS)
            assert bench.entry(1) is not None
            shutil.rmtree(
                bench.folder, ignore_errors=True
            )  # under the helper, which waits for more jobs by now
            shutil.rmtree(bench.store.location)

    def test_damaged_job(self, bench: Bench) -> None:
        """Jobs that are damaged, or lack what a job has, are dropped; the others are done."""
        bench.queued(0)
        (job,) = bench.queue.jobs()
        path = pathlib.Path(bench.queue.folder, job.address)
        blob = bytearray(path.read_bytes())
        blob[-1] ^= 1
        path.write_bytes(blob)
        bench.queue.add(bench.job(2))  # no address, no process: nothing of what `request` adds
        bench.queued(1)
        bench.work()
        assert bench.queue.jobs() == []
        assert bench.queue.failures() == ["inc: KeyError: 'address'"]
        assert bench.entry(0) is None
        assert bench.entry(1) is not None
        assert bench.entry(2) is None

    def test_failing_request(self, bench: Bench) -> None:
        """A folder in which no job can be written is an error of the one who asks, who goes on without."""
        pathlib.Path(bench.folder).write_text("a file in the place of the folder")
        with pytest.raises((OSError, CacheFault)):
            bench.request(1)

    def test_embedded(self, bench: Bench, monkeypatch) -> None:
        """Where Python is part of an application, that application is not started as a helper."""
        monkeypatch.setattr(sys, "executable", "/usr/bin/application")
        bench.request(1)
        assert len(bench.queue.jobs()) == 1


def _children() -> set[str]:
    """Return the processes that are children of this one."""
    tasks = pathlib.Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


def _written(bench: Bench, number: int) -> pathlib.Path:
    """Write a job into a file."""
    path = bench.root / f"{number}.job"
    path.write_bytes(bench.job(number).pack())
    return path
