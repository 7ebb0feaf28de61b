"""The helper process: ``python -m kcl.drivers.pocl.helper <kcl folder>`` does the folder's jobs and ends by itself.

There is one helper for a folder and host. It holds the lock, loads no driver, and forks a worker for the jobs of one
setting (see `kcl.drivers.pocl.jobs`), since a driver reads its variables once, and a damaged program may crash the
process that loads it. The worker writes down each job before it begins it. If the worker crashes, that job is dropped;
if the worker is killed from outside, the job stays for a later helper.

Both import only the standard library and kcl. The worker has a PoCL cache of its own, and reads the user's. A job that
fails is dropped, and its program is built from source as usual; `kcl status` and reports say why.
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
# A longer job is left to a later helper: in seconds of processor time, and in seconds by the clock.
STUCK_SECONDS, STUCK_FOR = 60, 600
AFTER_RANK_SECONDS = 5.0
_PAUSE = 0.02
# The helper yields to the user's work, but still gets time on a busy machine, since the next run waits for it. Beside
# MPI ranks it only takes what they leave.
NICENESS, NICENESS_BESIDE_RANKS = 5, 19
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS})
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# The statuses with which a worker ends.
_FINE, _LACKS_DEVICE = 0, 3


class Helper:
    """The helper of a host.

    `rank` is the process that started it if that runs under an MPI launcher or a batch scheduler, else 0. `lock` is the
    descriptor of the lock that it inherits.
    """

    def __init__(self, folder: str, pyopencl: str, rank: int, lock: int | None) -> None:
        self._pyopencl = pyopencl
        self._queue = JobQueue(folder)
        self._lock = lock
        self._work = f"{self._queue.work}{os.getpid()}"
        # The file with the job that the worker has begun.
        self._begun = f"{self._work}/begun"
        self._rank = rank
        self._with_rank = time.monotonic()
        # Jobs that this helper does not try again; a later helper may.
        self._set_aside: set[Job] = set()

    def run(self) -> None:
        """Do jobs until none is left, and remove the helper's own files."""
        # A process that wrote a job while this one held the lock has started no helper, so look once more.
        while self._hold():
            continue

    def _hold(self) -> bool:
        """Take the lock and do jobs; return True if new jobs came when it was released."""
        lock, self._lock = self._lock or self._queue.lock(), None
        if lock is None:
            return False
        try:
            # Without space for the process id nobody can end this process, but it ends by itself.
            with suppress(OSError):
                sign(lock)
            self._queue.sweep()
            while self._is_in_time() and (due := self._due()):
                self._do([job for job in due if job.setting == due[0].setting], lock)
        finally:
            # The folder is removed first: once the lock is released, another process may remove the whole cache.
            shutil.rmtree(self._work, ignore_errors=True)
            close_lock(lock)
        return self._is_in_time() and bool(self._due())

    def _due(self) -> list[Job]:
        return [job for job in self._queue.due() if job not in self._set_aside]

    def _is_in_time(self) -> bool:
        """Return False if the MPI rank that started this process ended some seconds ago."""
        now = time.monotonic()
        if not self._rank or state_of(str(self._rank)):
            self._with_rank = now
        return now - self._with_rank < AFTER_RANK_SECONDS

    def _do(self, jobs: list[Job], lock: int) -> None:
        """Fork a worker for the jobs of a setting, wait for it, and handle the job at which it crashed, if any."""
        shutil.rmtree(self._work, ignore_errors=True)
        os.mkdir(self._work, 0o700)
        self._begin("")
        mine = os.getpid()
        worker = os.fork()
        if not worker:
            # Closed so that the lock is released when the helper ends, whatever its worker does. Forked children close
            # descriptors of their parent's own locks by themselves, hence the `suppress`.
            with suppress(OSError):
                os.close(lock)
            # Without the clean-up of the callers, which is the helper's.
            os._exit(self._be_worker(jobs, mine))
        try:
            _worker, status = os.waitpid(worker, 0)
        except BaseException:
            # A signal asks this process to end.
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
            # If the worker was killed, only its present job is put aside; the next worker does the others.
            is_killed = begun and code < 0
            self._set_aside.update([job for job in jobs if not is_killed or job.address == begun])

    def _begin(self, begun: str) -> None:
        """Write down the address and kernel of the job that begins, and show progress to waiting processes."""
        with open(self._begun, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(begun)
        self._queue.note_progress()

    # the worker

    def _be_worker(self, jobs: list[Job], helper: int) -> int:
        """Do the jobs of a setting until none has come for a second; return the exit status of this process."""
        try:
            # On Linux: kill this process when its parent dies.
            with suppress(AttributeError, OSError):
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            # The helper may have died before that call.
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
        """Load OpenCL with a job's variables, and with a PoCL cache of this process's own."""
        for name in settings.environment():
            if name.startswith(DRIVER_PREFIXES):
                os.unsetenv(name)
        for name, value in (dict(variables) if isinstance(variables, dict) else {}).items():
            os.putenv(name, value)
        # `putenv` and not `os.environ`: drivers read C's environment, at the first query for platforms.
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
        """Do a job, and drop it whether it succeeds or fails."""
        self._set_aside.add(job)
        entry = self._queue.read(job)
        if entry is None:
            return
        kernel, failure = str(entry.metadata.get("kernel", "")), ""
        self._begin(f"{job.address} {kernel}")
        # No Python code handles these signals, so that they kill this process even inside the driver.
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
            # A newer job of the same key stays.
            if job in self._queue.jobs():
                self._queue.drop(job.address, failure)


def main(arguments: list[str]) -> None:
    """Do the jobs of a kcl folder, then end this process.

    Arguments: the folder, and optionally pyopencl's directory, the id of the MPI or batch process that started it, and the
    descriptor of the lock.
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
    """Lower the priority for processor and memory, switch core files off, and end cleanly at signals."""
    niceness = NICENESS_BESIDE_RANKS if beside_ranks else NICENESS
    os.nice(niceness)
    # A launcher binds each rank to a core, and the rank keeps that one busy.
    if beside_ranks:
        with suppress(AttributeError, OSError):
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
    # Linux divides processor time among sessions; without this the helper would get as much as the user's session.
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
    """End this process, ignoring further signals, so that it can remove its cache."""
    for name in _ENDING:
        signal.signal(name, signal.SIG_IGN)
    sys.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
