"""The helper process: ``python -m kcl.drivers.pocl.helper <kcl folder>`` works on the folder's jobs and ends by itself.

One helper lives per folder and node. It imports the standard library and kcl only, has a PoCL cache of its own, and
reads the user's. It reports no fault: a job that fails is dropped, and the user's programs are built from source as
usual.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

from kcl.base import settings, spans
from kcl.base.settings import trust
from kcl.cache import growth, places
from kcl.drivers.pocl.client import driver_variables, pyopencl_folder
from kcl.drivers.pocl.complete import CompletionTask, Workshop
from kcl.drivers.pocl.jobs import AGAIN, NEW, TRYING, Job, JobQueue
from kcl.drivers.pocl.opencl import Library
from kcl.drivers.pocl.private import WorkCache

LIFE_SECONDS = 600.0
IDLE_SECONDS = 1.5
STARTS_OVER = 20
_PAUSE = 0.02
# The helper runs after the user's work, but not so late that the next run waits for a machine to become idle.
_NICENESS = 5


class Helper:
    """The one helper of a queue, while it holds the lock."""

    def __init__(self, folder: str, queue: JobQueue, pyopencl: str, until: float) -> None:
        self._folder = folder
        self._queue = queue
        self._pyopencl = pyopencl
        self._until = until
        self._lock: int | None = None
        self._variables = driver_variables(settings.environment())
        self._tasks: dict[str, CompletionTask] = {}
        self._beyond: set[tuple[str, float]] = set()
        self._elsewhere: dict[str, str] | None = None
        self._work = os.path.join(queue.folder, places.HELPER_WORK + os.urandom(8).hex())

    def run(self) -> dict[str, str] | None:
        """Work until no job is left, and leave no trace.

        Returns the drivers' variables under which a new helper is to work, None where no job is left. Drivers read
        their variables once, and a job that was written while this helper still held the lock relies on it.
        """
        self._lock = self._queue.lock()
        if self._lock is None:
            return None
        try:
            workshop = self._open()
            self._take_up()
            self._work_on(workshop)
        finally:  # a process that sees the lock released may remove the cache
            if self._is_at_home():
                growth.write(self._folder)
                self._queue.dismiss(False)
            shutil.rmtree(self._work, ignore_errors=True)
            spans.write()
            os.close(self._lock)
        if self._elsewhere is not None:
            return self._elsewhere
        return self._variables if time.time() < self._until and self._listed() else None

    def _open(self) -> Workshop:
        """Start OpenCL with a private PoCL cache; remove the leftovers of killed helpers."""
        self._queue.dismiss(False)
        os.mkdir(self._work, 0o700)
        # The drivers read C's environment, at the first query for platforms.
        os.putenv("POCL_CACHE_DIR", self._work)
        os.putenv("POCL_KERNEL_CACHE", "1")
        os.putenv("POCL_MAX_PTHREAD_COUNT", "1")
        os.putenv("PYOPENCL_HOME", self._pyopencl)
        for name in ("POCL_DEBUG", "POCL_TRACING", "POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES"):
            os.unsetenv(name)
        library = Library(self._pyopencl)
        library.warm_up()
        self._sweep()
        return Workshop(library, WorkCache(self._work))

    def _sweep(self) -> None:
        own = os.path.basename(self._work)
        for name in os.listdir(self._queue.folder):
            if name.startswith(places.HELPER_WORK) and name != own:
                shutil.rmtree(os.path.join(self._queue.folder, name), ignore_errors=True)
        self._queue.sweep()

    def _take_up(self) -> None:
        """Try the last helper's job, at which it died, once more without short cuts, then give it up."""
        for job in self._queue.jobs():
            with suppress(OSError):
                if job.state == TRYING:
                    self._queue.move(job, AGAIN)
                elif job.state == AGAIN:
                    self._queue.drop(job)

    def _is_at_home(self) -> bool:
        """Tell whether this helper still has its lock and directory: the cache may be removed and made again."""
        return self._lock is not None and self._queue.is_locked_by(self._lock) and os.path.isdir(self._work)

    def _listed(self) -> list[Job]:
        return [job for job in self._queue.jobs() if (job.digest, job.written) not in self._beyond]

    def _work_on(self, workshop: Workshop) -> None:
        seen = time.monotonic()
        while time.time() < self._until and time.monotonic() - seen < IDLE_SECONDS and self._is_at_home():
            is_dismissed = self._queue.is_dismissed()
            listed = self._listed()
            if listed:
                seen = time.monotonic()
            elif is_dismissed:
                return
            if self._do_first(workshop, listed):
                continue
            if self._elsewhere is not None and not self._tasks:
                return
            time.sleep(_PAUSE)

    def _do_first(self, workshop: Workshop, listed: list[Job]) -> bool:
        """Do the first job that can be done now; tell whether there was one."""
        self._elsewhere = None
        return any(self._try(workshop, job) for job in listed)

    def _try(self, workshop: Workshop, job: Job) -> bool:
        """Do a job if it can be done now; tell whether there was work to do."""
        task = self._task(job)
        if task is None or not workshop.is_ready(task):
            return False
        try:
            self._do(workshop, job, task)
        except OSError:  # it cannot be renamed or dropped: leave it
            self._beyond.add((job.digest, job.written))
        return True

    def _task(self, job: Job) -> CompletionTask | None:
        """Return a job's task; ``None`` for one that is gone, damaged, or of other variables than this helper's."""
        known = self._tasks.get(job.digest)
        if known is not None and known.written == job.written:
            return known
        try:
            entry = self._queue.read(job)
        except Exception:  # it cannot be read or dropped: leave it
            self._beyond.add((job.digest, job.written))
            return None
        if entry is None:
            return None
        variables = entry.metadata.get("environment")
        if isinstance(variables, dict) and variables != self._variables:
            self._elsewhere = variables
            return None
        return CompletionTask(entry, job.written)

    def _do(self, workshop: Workshop, job: Job, task: CompletionTask) -> None:
        self._tasks.pop(job.digest, None)
        short_cut = job.state == NEW
        if short_cut:
            job = self._queue.move(job, TRYING)
        try:
            with spans.span("complete", str(task.entry.metadata.get("kernel", "")), settings.BINARY):
                later = workshop.make(task, short_cut)
        except SystemExit:  # asked to end: the next helper does the job as a new one
            self._queue.move(job, NEW)
            raise
        except Exception:
            if not self._is_at_home():
                sys.exit()  # the job belongs to another helper
            later = None
        if later is None:
            self._queue.drop(job)
            return
        self._tasks[job.digest] = later
        self._queue.move(job, NEW)


def main(arguments: list[str]) -> None:
    """Work on the jobs of a kcl folder, then end this process.

    Arguments: the folder, and optionally pyopencl's directory, the time to end at, and the number of restarts that are
    left.
    """
    try:
        folder, pyopencl, until, lives, *_ = [*arguments, "", "", ""]
        end = min(float(until or "inf"), time.time() + LIFE_SECONDS)
        variables = _run(folder, pyopencl, end)
        if variables is not None and int(lives or STARTS_OVER) > 0:
            _start_over(len(arguments), variables, [folder, pyopencl, repr(end), str(int(lives or STARTS_OVER) - 1)])
    except BaseException:
        pass
    os._exit(0)  # without the drivers' exit handlers


def _run(folder: str, pyopencl: str, until: float) -> dict[str, str] | None:
    _be_modest(until)
    queue = JobQueue(folder)
    if not trust.check(queue.folder):
        return None
    spans.begin()
    return Helper(folder, queue, pyopencl or pyopencl_folder(), until).run()


def _be_modest(until: float) -> None:
    """Yield the processor to other processes, leave no core file, end when told, and at the latest at `until`."""
    os.nice(_NICENESS)
    with suppress(OSError), open("/proc/self/autogroup", "w") as stream:
        stream.write(str(_NICENESS))  # a session of its own would weigh as much as the user's whole session
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, lambda *_: sys.exit())
    signal.alarm(max(1, int(until - time.time()) + 30))


def _start_over(count: int, variables: dict[str, str], arguments: list[str]) -> None:
    """Become a new helper under other variables of the drivers; this one holds no lock and no directory now."""
    environment = settings.environment()
    for name in driver_variables(environment):
        del environment[name]
    environment.update(variables)
    own = sys.orig_argv[: len(sys.orig_argv) - count]
    os.execve(sys.executable, [*own, *arguments], environment)


if __name__ == "__main__":
    main(sys.argv[1:])
