"""Complete entries for drivers that are slow to give out a binary: a helper process makes them (PoCL).

The first process writes a job (`request`) and goes on; the helper writes the entry into the binary store and
deletes the job. A later process that finds the job instead of the entry waits for it, within bounds (`wait`).
Correct results need none of this: without a helper programs are built from source as usual.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

from kcl.base import process, settings
from kcl.cache import entry
from kcl.cache.entry import Entry
from kcl.cache.patience import Patience, Signs, signs_of
from kcl.drivers.pocl.jobs import JobQueue

# a helper that was started takes a moment to hold its lock
_START_SECONDS = 1.0
_END_SECONDS = 2.0  # an idle helper ends in a few hundredths of a second; a stopped one is left behind
_IGNORED = frozenset(
    {"POCL_CACHE_DIR", "POCL_KERNEL_CACHE", "POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES", "POCL_MAX_PTHREAD_COUNT"}
)
_IGNORED_PREFIXES = ("POCL_DEBUG", "POCL_MEMORY", "POCL_TRACING")
_DRIVER_PREFIXES = ("CL_", "OCL_", "OPENCL_", "POCL_")


class State:
    """The wait that ended without a result, whether helpers are started, the time of each start, and the queues."""

    def __init__(self) -> None:
        self.gave_up = False
        self.starts = True
        self.last_starts: dict[str, float] = {}
        self.queues: dict[str, JobQueue] = {}  # each remembers that its directory was checked


_state = process.own(State)


def request(folder: str, address: str, job: Entry) -> None:
    """Ask for the binary of a program: write the job below the kcl folder, and make sure that a helper runs.

    `address` is the place of the entry in the binary store. `job` is the entry without its binary; its metadata
    also names "platform", "device", "kernels", "options", "binaries" (the store's
    directory), "pocl_cache" (PoCL's cache directory or ``None``) and "build_options", the exact text handed to
    clBuildProgram. Raises a store's errors (`OSError`, `CacheFault`); thread-safe; about a millisecond.
    """
    queue = _queue(folder)
    asked = {
        "address": address,
        "directory": _directory(),
        "environment": driver_variables(settings.environment()),
        "process": os.getpid(),
    }
    queue.add(Entry(job.key, {**job.metadata, **asked}, job.parts))
    _start(queue, folder)


def pending(folder: str, digest: str) -> bool:
    """Tell whether a job of this key digest waits or a helper works on it."""
    return _queue(folder).state(digest) is not None


def recorded_seconds(folder: str, digest: str) -> float | None:
    """Return the seconds that the program of a job took to build; None where they are unknown."""
    job = _queue(folder).find(digest)
    return entry.recorded_seconds(job) or None if job is not None else None


def wait(folder: str, digest: str, seconds: float, what: str = "") -> bool:
    """Wait until a job has gone; return `False` when time is over, or at once where no helper will do it soon.

    No helper will do it soon where the job killed the last helper, or none is alive and none can be started. A helper
    that is stopped or idle is left behind (`kcl.cache.patience`). After a wait without a result this process waits for
    no helper. A long wait is shown on the terminal; `what` names the job there.
    """
    queue, end, pause = _queue(folder), time.monotonic() + seconds, 0.005
    with Patience(what) as patience:
        while (state := queue.state(digest)) is not None:
            if state == "again" or _state().gave_up:
                return False
            signs = _signs(queue, digest, folder)
            if signs is None or patience.is_over(str(queue.holder()), signs) or time.monotonic() + pause > end:
                _state().gave_up = queue.state(digest) is not None
                return not _state().gave_up
            time.sleep(pause)
            pause = min(pause * 1.2, 0.02)
    return True


def dismiss(folder: str) -> None:
    """Let an idle helper end, and wait for its end: then no process writes below the folder."""
    queue, end = _queue(folder), time.monotonic() + _END_SECONDS
    if not queue.has_helper():
        return
    queue.dismiss()
    while queue.has_helper() and queue.is_empty() and time.monotonic() < end:
        time.sleep(0.005)
    _state().last_starts.pop(queue.folder, None)


def idle(
    folder: str, seconds: float, progress: Callable[[int, int], object] | None = None, starts: bool = False
) -> bool:
    """Wait until no job is pending; return `False` when time is over, or where jobs of a second's age have no helper.

    `progress` is called with two numbers: the jobs that have gone since the call, and all jobs. With `starts` a
    helper is started once where none lives: another process may have dismissed the last one.
    """
    queue = _queue(folder)
    end = time.monotonic() + seconds
    alone = time.monotonic() + _START_SECONDS
    tell = _Progress(queue, progress)
    while not tell.is_done():
        now = time.monotonic()
        if queue.has_helper():
            alone = now + _START_SECONDS
        if alone < now < end and starts:
            start(folder)
            alone, starts = now + _START_SECONDS, False
        if now > min(alone, end):
            return tell.is_done()
        time.sleep(0.02)
    return True


class _Progress:
    """The count of finished jobs; each change of it is reported."""

    def __init__(self, queue: JobQueue, tell: Callable[[int, int], object] | None) -> None:
        self._queue = queue
        self._tell = tell
        self._total = 0
        self._left = -1

    def is_done(self) -> bool:
        """Tell whether no job is pending, and report the counts to the caller's `progress`."""
        if self._tell is None:
            return self._queue.is_empty()
        left = len(self._queue.jobs())
        self._total = max(self._total, left)
        if left != self._left and self._total:
            self._left = left
            self._tell(self._total - left, self._total)
        return not left and self._queue.is_empty()


def start(folder: str) -> None:
    """Make sure that a helper works on the jobs below the kcl folder, if it has any."""
    queue = _queue(folder)
    if not queue.is_empty():
        _start(queue, folder)


def leave_starting() -> None:
    """Write jobs and start no helper in this process: its parent starts one as soon as the processors are free."""
    _state().starts = False


def driver_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the drivers read and that may change their results."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(_DRIVER_PREFIXES) and name not in _IGNORED and not name.startswith(_IGNORED_PREFIXES)
    }


def _signs(queue: JobQueue, digest: str, folder: str) -> Signs | None:
    """Return the helper's signs of life; a just started one counts as working; None where no helper lives."""
    if queue.has_helper():
        return signs_of(str(queue.holder()))
    if queue.age(digest) > _START_SECONDS:
        _start(queue, folder)
        if not _started_lately(queue):
            return None
    return Signs(runs=True, spent=(b"starts",))


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # removed under the process
        return "/"


def _queue(folder: str) -> JobQueue:
    queues = _state().queues
    return queues.get(folder) or queues.setdefault(folder, JobQueue(folder))


def _start(queue: JobQueue, folder: str) -> None:
    """Start a helper unless one is alive; at most once a second, since a new one needs a moment to hold its lock."""
    if not _state().starts or _started_lately(queue) or queue.has_helper():
        return
    _state().last_starts[queue.folder] = time.monotonic()
    command = _command(os.path.abspath(folder))
    if command is not None:
        _spawn(command)


def _started_lately(queue: JobQueue) -> bool:
    return time.monotonic() - _state().last_starts.get(queue.folder, -_START_SECONDS) < _START_SECONDS


def _command(folder: str) -> list[str] | None:
    """Return the helper's command line; ``None`` where this interpreter cannot be started again.

    The helper needs kcl and the standard library only; isolated mode keeps out the modules of the user's directories.
    """
    name = os.path.basename(sys.executable or "").lower()
    if os.name != "posix" or not name.startswith(("python", "pypy")):
        return None  # an application with Python inside
    home = os.path.dirname(settings.PACKAGE)
    code = f"import sys; sys.path.append({home!a}); from kcl.drivers.pocl.helper import main; main(sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", code, folder, pyopencl_folder()]


def _spawn(command: list[str]) -> None:
    import subprocess

    null = subprocess.DEVNULL
    # The shell leaves the helper to init, so the user's process never has a child it does not know. Where this
    # process is init, as in a container, no other process would reap the helper.
    is_init = os.getpid() == 1
    started = subprocess.Popen(
        command if is_init else ["/bin/sh", "-c", '"$0" "$@" &', *command],
        stdin=null,
        stdout=null,
        stderr=null,
        close_fds=True,
        start_new_session=True,
        cwd="/",
        env=settings.environment(),
    )
    if is_init:
        import threading

        threading.Thread(target=started.wait, name="kcl-reaper", daemon=True).start()
    else:
        started.wait()


def pyopencl_folder() -> str:
    """Return pyopencl's directory, without importing it; empty if there is none."""
    from importlib.util import find_spec

    loaded = sys.modules.get("pyopencl")
    file = loaded.__file__ if loaded is not None else getattr(find_spec("pyopencl"), "origin", None)
    return os.path.dirname(file or "")
