"""The helper process: ``python -m kcl.drivers.pocl.helper <kcl folder>`` works on the folder's jobs and ends by itself.

One helper lives per folder and host. It holds the lock, loads no driver, and forks a worker for the jobs of one
setting: a driver reads its variables once, and a damaged program may end the process that loads it. The worker names
each job before it begins. A job counts as tried only if its worker crashed; the job of a worker that was ended is as
new.

Both import the standard library and kcl only. The worker has a PoCL cache of its own, and reads the user's. A job that
fails is dropped, and the user's programs are built from source as usual; `kcl status` and reports say why.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import time
from contextlib import suppress

from kcl.base import process, settings, spans
from kcl.base.settings import trust
from kcl.cache.locks import close_lock, sign, state_of
from kcl.drivers.pocl.client import DRIVER_PREFIXES, pyopencl_folder
from kcl.drivers.pocl.complete import Workshop
from kcl.drivers.pocl.files import WorkCache
from kcl.drivers.pocl.jobs import Job, JobQueue
from kcl.drivers.pocl.opencl import Library
from kcl.drivers.pocl.poclbin import UnknownContainer

IDLE_SECONDS = 1.0
# A job that takes longer is left to a later helper: seconds of the processor, and on a busy machine by the clock.
STUCK_SECONDS, STUCK_FOR = 60, 600
AFTER_RANK_SECONDS = 5.0
_PAUSE = 0.02
# The helper runs after the user's work, but not so late that the next run waits for a machine to become idle. Beside
# ranks it takes what they leave.
NICENESS, NICENESS_BESIDE_RANKS = 5, 19
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS})
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# The statuses with which a worker ends.
_FINE, _LACKS_DEVICE = 0, 3


class Helper:
    """The one helper of a host.

    `rank` is the process that started it under an MPI launcher or a batch scheduler, `lock` the lock that it inherits.
    """

    def __init__(self, folder: str, pyopencl: str, rank: int, lock: int | None) -> None:
        self._pyopencl = pyopencl
        self._queue = JobQueue(folder)
        self._lock = lock
        self._work = f"{self._queue.work}{os.getpid()}"
        # This file goes with the folder.
        self._begun = f"{self._work}/begun"
        self._rank = rank
        self._with_rank = time.monotonic()
        # The jobs that were tried, or cannot be done now: a later helper may do them.
        self._set_aside: set[Job] = set()

    def run(self) -> None:
        """Work until no job is left, and leave no trace."""
        # A process that wrote a job while this one still held the lock relies on it.
        while self._hold():
            continue

    def _hold(self) -> bool:
        """Work while this process holds the lock; return True if jobs came as it was released."""
        lock, self._lock = self._lock or self._queue.lock(), None
        if lock is None:
            return False
        try:
            # If there is no space to sign, no process ends this one from outside: it ends by
            # itself.
            with suppress(OSError):
                sign(lock)
            self._queue.sweep()
            while self._is_in_time() and (due := self._due()):
                self._do([job for job in due if job.setting == due[0].setting], lock)
        finally:
            # In this order: a process that sees the lock released may remove the cache.
            shutil.rmtree(self._work, ignore_errors=True)
            close_lock(lock)
        return self._is_in_time() and bool(self._due())

    def _due(self) -> list[Job]:
        return [job for job in self._queue.due() if job not in self._set_aside]

    def _is_in_time(self) -> bool:
        """Return False if the rank that started this process ended some seconds ago."""
        now = time.monotonic()
        if not self._rank or state_of(str(self._rank)):
            self._with_rank = now
        return now - self._with_rank < AFTER_RANK_SECONDS

    def _do(self, jobs: list[Job], lock: int) -> None:
        """Have a worker do the jobs of a setting, and note how it ended."""
        shutil.rmtree(self._work, ignore_errors=True)
        os.mkdir(self._work, 0o700)
        self._begin("")
        mine = os.getpid()
        worker = os.fork()
        if not worker:
            # The descriptor is closed already if this process has opened it.
            with suppress(OSError):
                # The system releases the lock as the helper ends, whatever its worker does.
                os.close(lock)
            # At once: the clean-up of the calls above is that of the helper.
            os._exit(self._be_worker(jobs, mine))
        try:
            _worker, status = os.waitpid(worker, 0)
        except BaseException:
            # This process is asked to end.
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
            raise
        code = os.waitstatus_to_exitcode(status)
        if code in (_FINE, _LACKS_DEVICE):
            self._queue.note_device(jobs[0].setting, code == _FINE)
        with open(self._begun, encoding="utf-8", errors="replace") as stream:
            begun, _, kernel = stream.read().partition(" ")
        if begun and -code in _CRASHES:
            self._queue.drop(begun, f"{kernel}: PoCL ended with {signal.Signals(-code).name}")
        else:
            # A job at which the worker was killed does not keep the next worker from the others.
            is_killed = begun and code < 0
            self._set_aside.update([job for job in jobs if not is_killed or job.address == begun])

    def _begin(self, begun: str) -> None:
        """Write down which job is begun, by address and kernel, and show that to the processes that wait."""
        with open(self._begun, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(begun)
        self._queue.note_progress()

    # the worker

    def _be_worker(self, jobs: list[Job], helper: int) -> int:
        """Do the due jobs of a setting until none has come for a second; return the status of this process."""
        try:
            # Linux ends this process with its parent.
            with suppress(AttributeError, OSError):
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            # The helper was killed before this process could ask for that.
            if os.getppid() != helper:
                return 1
            for name in _ENDING:
                signal.signal(name, signal.SIG_DFL)
            entry = next(filter(None, map(self._queue.read, jobs)))
            library = self._library(entry.metadata.get("environment"))
            device = library.device(entry.metadata["platform"], entry.metadata["device"])
            if device is None:
                return _LACKS_DEVICE
            self._do_all(jobs[0].setting, Workshop(device, WorkCache(self._work)))
            return _FINE
        except BaseException:
            return 1
        finally:
            with suppress(Exception):
                spans.write()

    def _library(self, variables: object) -> Library:
        """Start OpenCL under a job's variables, with a PoCL cache of this process."""
        for name in settings.environment():
            if name.startswith(DRIVER_PREFIXES):
                os.unsetenv(name)
        for name, value in (dict(variables) if isinstance(variables, dict) else {}).items():
            os.putenv(name, value)
        # The drivers read C's environment, at the first query for platforms.
        os.putenv("POCL_CACHE_DIR", self._work)
        os.putenv("POCL_KERNEL_CACHE", "1")
        os.putenv("POCL_MAX_PTHREAD_COUNT", "1")
        os.putenv("PYOPENCL_HOME", self._pyopencl)
        return Library(self._pyopencl)

    def _do_all(self, setting: str, workshop: Workshop) -> None:
        seen = time.monotonic()
        while self._is_in_time() and time.monotonic() - seen < IDLE_SECONDS:
            due = self._due()
            job = next((job for job in due if job.setting == setting), None)
            if job is not None:
                self._try(workshop, job)
                seen = time.monotonic()
            elif due:
                return
            else:
                time.sleep(_PAUSE)

    def _try(self, workshop: Workshop, job: Job) -> None:
        """Do a job, and drop it whatever comes of it."""
        self._set_aside.add(job)
        entry = self._queue.read(job)
        if entry is None:
            return
        kernel, failure = str(entry.metadata.get("kernel", "")), ""
        self._begin(f"{job.address} {kernel}")
        # Both signals end this process, in the driver too: no Python code handles them.
        signal.setitimer(signal.ITIMER_PROF, STUCK_SECONDS)
        signal.alarm(STUCK_FOR)
        try:
            with spans.span("complete", kernel, settings.BINARY):
                workshop.make(entry, job.written)
        except UnknownContainer as error:
            self._queue.note_unknown(job.setting, *error.args)
        except Exception as error:
            failure = " ".join(f"{kernel}: {type(error).__name__}: {error}".split())
        with suppress(OSError):
            # Another job of the same key may have come: that one stays.
            if job in self._queue.jobs():
                self._queue.drop(job.address, failure)


def main(arguments: list[str]) -> None:
    """Work on the jobs of a kcl folder, then end this process.

    Arguments: the folder, and optionally pyopencl's directory, the process of an MPI launcher or a batch scheduler that
    started it, and the descriptor that holds the lock.
    """
    with suppress(BaseException):
        folder, pyopencl, rank, lock, *_ = [*arguments, "", "", ""]
        _be_modest(bool(rank))
        if trust.check(JobQueue(folder).folder):
            Helper(
                folder, pyopencl or pyopencl_folder(), int(rank or 0), int(lock) if lock else None
            ).run()
    os._exit(0)


def _be_modest(beside_ranks: bool) -> None:
    """Yield processor and memory to other processes, leave no core file, and end when told."""
    niceness = NICENESS_BESIDE_RANKS if beside_ranks else NICENESS
    os.nice(niceness)
    # A launcher binds each rank to a core, which is busy.
    if beside_ranks:
        with suppress(AttributeError, OSError):
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
    # Linux weighs sessions: that of the helper would count as much as the user's whole session.
    for path, text in (
        ("self/autogroup", str(niceness)),
        ("self/oom_score_adj", "1000"),
    ):
        with suppress(OSError), process.proc(path, "w") as stream:
            stream.write(text)
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in _ENDING:
        signal.signal(name, _end)


def _end(*_: object) -> None:
    """End this process, once: another signal must not keep it from removing its cache."""
    for name in _ENDING:
        signal.signal(name, signal.SIG_IGN)
    sys.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
