"""The pending queue on disk, and the lock that says whether a helper is alive.

    <folder>/pending/<node>/new/<digest>       waits for a helper
    <folder>/pending/<node>/trying/<digest>    a helper works on it; found by a new helper: the last one was killed
    <folder>/pending/<node>/again/<digest>     the second and last try, without short cuts
    <folder>/pending/<node>/lock               held (flock) by the one helper of this node, whose process id it says
    <folder>/pending/<node>/work-*             that helper's own PoCL cache
    <folder>/pending/<node>/dismissed          that helper ends as soon as no job waits, without waiting for more

A job is an entry without its binary, written and verified as every entry is. It moves by renaming. Nodes that share
a home directory have different devices, hence queues of their own.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from typing import NamedTuple

from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.entry import Entry
from kcl.cache.stores.base import safe
from kcl.cache.stores.directory import Directory
from kcl.cache.verified import entry_at
from kcl.errors import DamagedEntry

if sys.platform != "win32":  # no flock, no helper
    import fcntl

NEW, TRYING, AGAIN = STATES = ("new", "trying", "again")
LONGEST_AGE = 86400.0


class Job(NamedTuple):
    """A job as the queue lists it, before it is read."""

    digest: str
    state: str
    written: float


class JobQueue:
    """The jobs of this node below one kcl folder."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(os.path.abspath(folder), places.PENDING, node())
        self._files = Directory(self.folder)

    def add(self, entry: Entry) -> None:
        """Write a job; one of the same key that waits already is replaced. Raises a store's errors."""
        self._files.put(f"{NEW}/{entry.key.digest}", entry.pack())

    def jobs(self) -> list[Job]:
        """Return the jobs in all states, oldest first."""
        found = []
        for address in self._files.scan():
            state, _, digest = address.partition("/")
            if state in STATES and digest:
                with suppress(OSError):
                    found.append(Job(digest, state, os.stat(f"{self.folder}/{address}").st_mtime))
        return sorted(found, key=lambda job: job.written)

    def read(self, job: Job) -> Entry | None:
        """Return the entry in a job; ``None`` if it is gone or damaged, and then it is dropped."""
        try:
            blob = self._files.get(f"{job.state}/{job.digest}")
            return None if blob is None else entry_at(f"{job.state}/{job.digest}", blob)
        except DamagedEntry:
            self.drop(job)
            return None

    def find(self, digest: str) -> Entry | None:
        """Return the entry in the job of a digest; ``None`` if it is gone or damaged."""
        jobs = (self.read(Job(digest, state, 0.0)) for state in STATES)
        return next((job for job in jobs if job is not None), None)

    def move(self, job: Job, state: str) -> Job:
        """Move a job to another state; raises `OSError`, as when it is gone."""
        source, target = f"{self.folder}/{job.state}", f"{self.folder}/{state}"
        with suppress(FileExistsError):
            os.mkdir(target, 0o700)
        os.rename(f"{source}/{job.digest}", f"{target}/{job.digest}")
        return job._replace(state=state)

    def drop(self, job: Job) -> None:
        """Forget a job; it is no error if it is gone."""
        self._files.delete(f"{job.state}/{job.digest}")

    def state(self, digest: str) -> str | None:
        """Return the state of a job, ``None`` if there is none."""
        for _ in range(2):  # a job can be put back during the first look: the second one finds it
            for state in STATES:
                if os.path.lexists(f"{self.folder}/{state}/{digest}"):
                    return state
        return None

    def age(self, digest: str) -> float:
        """Return the age of a job in seconds; 0 if it is gone."""
        for state in STATES:
            with suppress(OSError):
                return time.time() - os.stat(f"{self.folder}/{state}/{digest}").st_mtime
        return 0.0

    def sweep(self) -> None:
        """Remove abandoned files: queues of nodes that are gone, locks of leaders that were killed."""
        limit = time.time() - LONGEST_AGE
        pending = os.path.dirname(self.folder)
        with suppress(OSError):
            for item in os.scandir(pending):
                if item.is_dir(follow_symlinks=False) and item.path != self.folder and _latest(item.path) < limit:
                    shutil.rmtree(item.path, ignore_errors=True)
        with suppress(OSError):
            for item in os.scandir(os.path.join(os.path.dirname(pending), places.FLIGHT)):
                if item.is_file(follow_symlinks=False) and item.stat(follow_symlinks=False).st_mtime < limit:
                    os.unlink(item.path)

    def is_empty(self) -> bool:
        """Tell whether no job waits in any state."""
        return not any(_holds_any(f"{self.folder}/{state}") for state in STATES)

    def lock(self) -> int | None:
        """Become the helper of this queue; return the descriptor that holds the lock, ``None`` if there is one.

        A process that asks whether a helper is alive holds the lock for an instant: a few tries pass it.
        """
        for _ in range(5):
            descriptor = self._locked(exclusive=True)
            if descriptor is not None:
                if self.is_locked_by(descriptor):
                    with suppress(OSError):  # no space: then no process ends it from outside, and it ends by itself
                        os.pwrite(descriptor, f"{os.getpid():<20}".encode(), 0)
                    return descriptor
                os.close(descriptor)
            time.sleep(0.01)
        return None

    def is_locked_by(self, descriptor: int) -> bool:
        """Tell whether that descriptor's lock is the queue's: the folder may have been removed and made again."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(f"{self.folder}/lock"))
        except OSError:
            return False

    def has_helper(self) -> bool:
        """Tell whether a helper holds the lock."""
        if sys.platform == "win32" or not os.path.lexists(f"{self.folder}/lock"):
            return False
        descriptor = self._locked(exclusive=False)
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def dismiss(self, is_dismissed: bool = True) -> None:
        """Ask the helper to end as soon as no job waits, or withdraw that request."""
        path = f"{self.folder}/{places.DISMISSED}"
        with suppress(OSError):
            os.close(os.open(path, trust.LOCK, 0o600)) if is_dismissed else os.unlink(path)

    def is_dismissed(self) -> bool:
        """Tell whether the helper is asked to end as soon as no job waits."""
        return os.path.lexists(f"{self.folder}/{places.DISMISSED}")

    def holder(self) -> int | None:
        """Return the process id that the last helper wrote into the lock; it may have ended since."""
        try:
            descriptor = os.open(f"{self.folder}/lock", trust.LOCK & ~os.O_CREAT)
        except OSError:
            return None
        with open(descriptor, "rb") as stream:
            text = stream.read(20).strip()
        return int(text) if text.isdigit() else None

    def _locked(self, exclusive: bool) -> int | None:
        if sys.platform == "win32":
            return None
        descriptor = os.open(f"{self.folder}/lock", trust.LOCK, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def node() -> str:
    """Return this machine's name as a folder's name."""
    name = os.uname().nodename if hasattr(os, "uname") else "local"
    return safe(name, 80) or "local"


def _latest(path: str) -> float:
    """Return the time of the last change in a directory; a file that cannot be asked counts as changed just now."""
    latest = 0.0
    for place, folders, files in os.walk(path):
        for name in (".", *folders, *files):
            try:
                latest = max(latest, os.lstat(os.path.join(place, name)).st_mtime)
            except OSError:
                return time.time()
    return latest


def _holds_any(path: str) -> bool:
    try:
        with os.scandir(path) as items:
            return any(not item.name.startswith(".") for item in items)
    except OSError:
        return False
