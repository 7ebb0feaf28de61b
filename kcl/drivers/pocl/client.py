"""The helper seen from other processes: they write jobs for it, start it, wait for it, and end it.

The first process writes a job (`request`) and goes on; the helper writes the entry into the binary store and deletes
the job. A later process that finds the job but no entry waits for it, within bounds (`wait`). Without a helper programs
are built from source as usual. `kcl.drivers.pocl.asking` decides when a process does what.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from typing import Any

from kcl import foreign
from kcl.base import process, settings
from kcl.cache.entry import Entry
from kcl.cache.locks import STOPPED, close_lock, state_of
from kcl.drivers.pocl.jobs import JobQueue, host, setting_of
from kcl.errors import CacheFault

# The longest wait for the end of an idle helper, which takes a few hundredths of a second unless it is stopped.
_END_SECONDS = 2.0
_IGNORED = frozenset(
    {
        "POCL_CACHE_DIR",
        "POCL_KERNEL_CACHE",
        "POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES",
        "POCL_MAX_PTHREAD_COUNT",
    }
)
_IGNORED_PREFIXES = ("POCL_DEBUG", "POCL_MEMORY", "POCL_TRACING")
DRIVER_PREFIXES = ("CL_", "OCL_", "OPENCL_", "POCL_")


def request(folder: str, address: str, job: Entry) -> None:
    """Write a job below the kcl folder: it asks the helper for the binary of a program.

    `address` is the place of the entry in the binary store. `job` is the entry without its binary; its metadata
    also names "platform", "device", "kernels", "options", "binaries" (the store's directory), "pocl_cache" (PoCL's
    cache directory or None) and "build_options", the exact text handed to clBuildProgram. Raises a store's errors
    (`OSError`, `CacheFault`); thread-safe; about a millisecond.
    """
    facts: dict[str, Any] = {
        "address": address,
        "environment": driver_variables(settings.environment()),
        "host": host(),
        "process": os.getpid(),
    }
    # The working directory may have been removed.
    with suppress(OSError):
        facts["directory"] = os.getcwd()
    # Variables that change code have the values that the build has read.
    others = facts["environment"].items()
    facts["environment"] = {
        **{name: value for name, value in others if name not in foreign.CODE_VARIABLES},
        **job.metadata["environment"],
    }
    entry, queue = Entry(job.key, {**job.metadata, **facts}, job.parts), JobQueue(folder)
    # Without locks, or if PoCL writes an unknown format, no helper can do the job.
    if process.HAS_LOCKS and not queue.unknown(setting_of(entry)):
        queue.add(entry)


class Stall:
    """The seconds that a process has waited since the helper's last progress, and the mark of that progress."""

    def __init__(self, seconds: float = 0.0, mark: int = 0) -> None:
        self.seconds = seconds
        self.mark = mark

    def note(self, seconds: float, mark: int) -> None:
        """Add seconds of waiting; if the mark differs there was progress, and the count starts at 0."""
        self.seconds = self.seconds + seconds if mark == self.mark else 0.0
        self.mark = mark


def wait(
    folder: str,
    digest: str,
    stall: Stall,
    patience: float,
    most: float = inf,
    starts: bool = True,
) -> float:
    """Wait until the job of a key digest is done; return the seconds waited, and update `stall`.

    The wait ends after `patience` seconds without progress, earlier waits included, or after `most` seconds. It ends at
    once if no helper will do the job soon: the helper is stopped, this host lacks the device, or no helper runs and none
    can be started. With `starts` this process may start one.
    """
    queue, pause = JobQueue(folder), 0.005
    began = before = time.monotonic()
    # A copy, since several threads may wait: each counts its own seconds.
    mine = Stall(stall.seconds, stall.mark)
    mine.note(0.0, queue.progress())
    while mine.seconds < patience and before - began < most:
        job = queue.find(digest)
        if job is None or queue.is_lacking(job.setting):
            break
        if queue.has_helper():
            if state_of(str(queue.holder())) in STOPPED:
                break
        elif not (starts and start(folder)):
            break
        time.sleep(pause)
        now = time.monotonic()
        mine.note(now - before, queue.progress())
        before, pause = now, min(pause * 1.2, 0.02)
    stall.seconds, stall.mark = mine.seconds, mine.mark
    return before - began


def dismiss(folder: str) -> None:
    """End the helper if it has nothing to do, and wait for its end, so that no process writes below the folder."""
    queue = JobQueue(folder)
    if not queue.due():
        queue.end_helper(_END_SECONDS)


def quiet(folder: str, seconds: float) -> bool:
    """End the helper and drop all jobs; return False if it still runs after `seconds` and may add entries."""
    queue = JobQueue(folder)
    # A lock file of another user cannot be opened: then no helper of this user runs.
    with suppress(OSError):
        if not queue.end_helper(seconds):
            return False
    queue.forget_failures(0)
    with suppress(OSError, CacheFault):
        for job in queue.jobs():
            queue.drop(job.address)
    return True


def idle(
    folder: str,
    seconds: float,
    progress: Callable[[int, int], object] | None = None,
    starts: bool = False,
) -> bool:
    """Wait until all jobs for this host are done; return False after `seconds`, or if no helper works on them.

    `progress(done, total)` is called with the jobs done since the call. With `starts` a helper is started once if none
    runs, since another process may have ended the last one.
    """
    queue, end = JobQueue(folder), time.monotonic() + seconds
    total, shown = 0, -1
    while left := len(queue.due()):
        total = max(total, left)
        if progress is not None and left != shown:
            progress(total - left, total)
            shown = left
        if not queue.has_helper():
            if not starts:
                return not queue.due()
            starts = False
            start(folder)
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    if progress is not None and total:
        progress(total, total)
    return True


def start(folder: str) -> bool:
    """Start a helper for the jobs below a kcl folder unless one runs; return False if none can be started.

    This process takes the helper's lock and the helper inherits it, so that no second one can start in between.
    """
    queue = JobQueue(folder)
    if queue.has_helper() or not queue.due():
        return True
    command = _command(os.path.abspath(folder))
    if command is None:
        return False
    lock = queue.lock()
    # None if another process is just starting a helper.
    if lock is not None:
        try:
            _spawn([*command, str(lock)], lock)
        finally:
            close_lock(lock)
    return True


def driver_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of drivers that may change their results."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(DRIVER_PREFIXES)
        and name not in _IGNORED
        and not name.startswith(_IGNORED_PREFIXES)
    }


def _command(folder: str) -> list[str] | None:
    """Return the helper's command line; None if this interpreter cannot be started again.

    The helper runs in isolated mode, without modules of the user: it needs only kcl and the standard library.
    """
    rank = str(os.getpid()) if settings.batch() else ""
    arguments = [folder, pyopencl_folder(), rank]
    # A program frozen by PyInstaller starts itself as the helper.
    if frozen := getattr(sys, "_kcl_helper", ""):
        return [sys.executable, frozen, *arguments]
    if not settings.is_python():
        return None
    home = os.path.dirname(settings.PACKAGE)
    code = f"import sys; sys.path.append({home!a}); from kcl.drivers.pocl.helper import main; main(sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def _spawn(command: list[str], descriptor: int) -> None:
    """Start a detached process: without streams, with one inherited descriptor, in a session of its own."""
    import subprocess

    null = subprocess.DEVNULL
    # By a shell that exits at once, so that the helper is a child of init and not of the user's process.
    subprocess.run(
        ["/bin/sh", "-c", '"$0" "$@" &', *command],
        stdin=null,
        stdout=null,
        stderr=null,
        pass_fds=(descriptor,),
        start_new_session=True,
        cwd="/",
        # With the variable a program frozen by PyInstaller starts as a new instance.
        env=settings.environment_alone() | {"PYINSTALLER_RESET_ENVIRONMENT": "1"},
        check=False,
    )


def pyopencl_folder() -> str:
    """Return pyopencl's directory, without importing it; empty if there is none."""
    from importlib.util import find_spec

    loaded = sys.modules.get("pyopencl")
    file = loaded.__file__ if loaded is not None else getattr(find_spec("pyopencl"), "origin", None)
    return os.path.dirname(file or "")
