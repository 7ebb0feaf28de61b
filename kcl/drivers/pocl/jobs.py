"""The queue of jobs on disk, and the lock that says whether a helper is running.

    <folder>/pending/<setting>/<digest>          a job: an entry without its binary
    <folder>/pending/<setting>/.lacks-<host>     this host has no device for these jobs
    <folder>/pending/<setting>/.writes-<number>  PoCL writes containers of this version, which kcl cannot read
    <folder>/pending/.failed-<digest>            why the job of this key failed and was dropped, until another one succeeds
    <folder>/pending/<host>.lock                 locked (flock) by the helper of this host, with its process id
    <folder>/pending/work-<host>-<process>       the helper's own PoCL cache

A setting is a digest of the drivers' variables, the platform and the device: one process can do all jobs of a setting.
A job has the form of an entry and is verified like one. Hosts that share a home directory share the jobs, but each has
its own lock, since a lock on a network file system may or may not work across hosts.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import signal
import time
from contextlib import suppress
from typing import NamedTuple

from kcl.base import process
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.entry import Entry, entry_at
from kcl.cache.locks import close_lock, is_at, open_lock, try_lock
from kcl.cache.stores import make_safe
from kcl.cache.stores.directory import Directory, publish
from kcl.drivers.pocl import poclbin
from kcl.errors import DamagedEntry
from kcl.programs.open_jobs import OpenJobs

LONGEST_AGE = 30 * 86400.0
_LACKS, _FAILED, _WRITES = ".lacks-", ".failed-", ".writes-"
_UNREAD = (
    "this kcl does not read PoCL's binaries of container version {}: PoCL's own cache serves alone"
)
_MOST_NOTES = 100  # of failures
_LOCK_AGE = 86400.0


class Job(NamedTuple):
    """A job in the queue, not yet read; `written` is a time in seconds since the epoch."""

    setting: str
    digest: str
    written: float

    @property
    def address(self) -> str:
        """The address of the job in the queue."""
        return f"{self.setting}/{self.digest}"


class JobQueue:
    """The jobs below one kcl folder."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(os.path.abspath(folder), places.PENDING)
        self._files = Directory(self.folder)
        self._lock_path = f"{self.folder}/{host()}.lock"
        # The beginning of the path of a helper's own cache; its process id follows.
        self.work = f"{self.folder}/{places.HELPER_WORK}{host()}-"

    def add(self, entry: Entry) -> None:
        """Write a job; an earlier one of the same key is replaced. Raises a store's errors."""
        self._files.put(f"{setting_of(entry)}/{entry.key.digest}", entry.pack())

    def jobs(self) -> list[Job]:
        """Return all jobs, oldest first."""
        listed = []
        for address, item in self._files.items():
            setting, _, name = address.partition("/")
            with suppress(OSError):
                if name:
                    listed.append(Job(setting, name, item.stat(follow_symlinks=False).st_mtime))
        return sorted(listed, key=lambda job: job.written)

    def due(self) -> list[Job]:
        """Return the jobs that a helper of this host can do, oldest first."""
        return [job for job in self.jobs() if not self.is_lacking(job.setting)]

    def read(self, job: Job) -> Entry | None:
        """Return the entry in a job; None if the job is gone or damaged. A damaged one is dropped."""
        try:
            blob = self._files.get(job.address)
            return None if blob is None else entry_at(job.address, blob)
        except DamagedEntry:
            self.drop(job.address)
            return None

    def drop(self, address: str, failure: str = "") -> None:
        """Remove a job; a missing one is no error. A `failure` is kept as a note for reports."""
        self._files.delete(address)
        note = f"{self.folder}/{_FAILED}{address.partition('/')[2]}"
        with suppress(OSError):
            if failure:
                trust.check_writer(self.folder, gives=True)
                publish(note, failure.encode("utf-8", "replace"))
            else:
                os.unlink(note)
        with suppress(OSError):
            # Only an empty folder is removed.
            os.rmdir(os.path.dirname(f"{self.folder}/{address}"))

    def find(self, digest: str) -> Job | None:
        """Return the job of a key digest; None if there is none."""
        return next((job for job in self.jobs() if job.digest == digest), None)

    def is_lacking(self, setting: str) -> bool:
        """Return True if no helper of this host can do the jobs of a setting: without the device, or without locks."""
        return not process.HAS_LOCKS or os.path.lexists(f"{self.folder}/{setting}/{_LACKS}{host()}")

    def unknown(self, setting: str = "*") -> list[int]:
        """Return the container versions that PoCL writes and this kcl cannot read, for one setting or for all."""
        paths = glob.glob(f"{glob.escape(self.folder)}/{setting}/{_WRITES}*")
        numbers = {path.rpartition("-")[2] for path in paths}
        return sorted(
            {int(text) for text in numbers if text.isdigit()}.difference(poclbin.VERSIONS)
        )

    def note_unknown(self, setting: str, version: int) -> None:
        """Note that the PoCL of a setting writes an unknown container version, and drop the setting's jobs."""
        with suppress(OSError):
            os.close(trust.open_file(f"{self.folder}/{setting}/{_WRITES}{version}", trust.LOCK))
        for job in self.jobs():
            if job.setting == setting:
                self.drop(job.address)

    def note_device(self, setting: str, is_there: bool) -> None:
        """Note whether this host has the device of a setting."""
        path = f"{self.folder}/{setting}/{_LACKS}{host()}"
        with suppress(OSError):
            os.unlink(path) if is_there else os.close(trust.open_file(path, trust.LOCK))

    def sweep(self) -> None:
        """Delete jobs older than a month, and the caches and locks of killed processes."""
        now = time.time()
        self.forget_failures()
        with suppress(OSError):
            for item in os.scandir(self.folder):
                is_work = item.path.startswith(self.work) and item.path[len(self.work) :].isdigit()
                is_old = item.stat().st_mtime < now - LONGEST_AGE
                if item.is_dir() and (is_work or is_old):
                    shutil.rmtree(item.path, ignore_errors=True)
                elif is_old and item.name.startswith(_FAILED):
                    os.unlink(item.path)
        with suppress(OSError):
            for item in os.scandir(os.path.join(os.path.dirname(self.folder), places.FLIGHT)):
                is_old = item.stat(follow_symlinks=False).st_mtime < now - _LOCK_AGE
                if is_old and item.is_file(follow_symlinks=False):
                    os.unlink(item.path)

    def failures(self) -> list[str]:
        """Return why jobs failed, each with the name of its kernel, the latest first."""
        texts = []
        with suppress(OSError):
            for path in self._notes():
                texts.append(trust.read(path, 500)[0].decode("utf-8", "replace"))
        return texts

    def forget_failures(self, most: int = _MOST_NOTES) -> None:
        """Remove the notes on failed jobs, except the `most` latest."""
        with suppress(OSError):
            for path in self._notes()[most:]:
                os.unlink(path)

    def _notes(self) -> list[str]:
        return sorted(
            glob.glob(f"{glob.escape(self.folder)}/{_FAILED}*"), key=os.path.getmtime, reverse=True
        )

    # the helper

    def lock(self) -> int | None:
        """Take the lock of this host's helper; return its descriptor, None if there is a helper.

        A process in `has_helper` holds the lock for an instant, so this tries a few times.
        """
        for _ in range(5):
            descriptor = self._locked(shared=False)
            if descriptor is not None:
                # Compared, since the folder may have been removed and made again.
                if is_at(self._lock_path, descriptor):
                    # The id of the last helper, which has ended, must not be taken for that of a running process.
                    os.truncate(descriptor, 0)
                    return descriptor
                close_lock(descriptor)
            time.sleep(0.01)
        return None

    def has_helper(self) -> bool:
        """Return True if a helper of this host holds the lock."""
        if not process.HAS_LOCKS or not os.path.lexists(self._lock_path):
            return False
        descriptor = self._locked(shared=True)
        if descriptor is None:
            return True
        close_lock(descriptor)
        return False

    def holder(self) -> int:
        """Return the process id in the lock of this host's helper; 0 if there is none.

        The id of a helper that has ended stays there until the lock is taken again.
        """
        with suppress(OSError, ValueError), trust.open_to_read(self._lock_path) as stream:
            return int(stream.read(20).partition(b" ")[0])
        return 0

    def note_progress(self) -> None:
        """Show waiting processes that the helper makes progress."""
        with suppress(OSError):
            os.utime(self._lock_path)

    def progress(self) -> int:
        """Return a number that changes with each job that the helper of this host begins."""
        try:
            return os.lstat(self._lock_path).st_mtime_ns
        except OSError:
            return 0

    def end_helper(self, seconds: float) -> bool:
        """Ask the helper of this host to end, and wait for it; return False if it still runs after `seconds`.

        Its present job stays in the queue.
        """
        end = time.monotonic() + seconds
        while self.has_helper():
            if time.monotonic() > end:
                return False
            if helper := self.holder():
                with suppress(OSError):
                    os.kill(helper, signal.SIGTERM)
            time.sleep(0.01)
        return True

    def _locked(self, shared: bool) -> int | None:
        descriptor, is_mine = open_lock(self._lock_path), False
        try:
            is_mine = try_lock(descriptor, shared)
        finally:
            if not is_mine:
                close_lock(descriptor)
        return descriptor if is_mine else None


def pending(folder: str) -> OpenJobs:
    """Return the jobs below a kcl folder; raises a store's errors."""
    queue = JobQueue(folder)
    # Asked before the jobs are read: a helper may do the last one meanwhile, and end.
    has_helper = queue.has_helper()
    here, elsewhere, times = list[Entry](), list[Entry](), list[float]()
    for job in queue.jobs():
        if (entry := queue.read(job)) is not None:
            (elsewhere if queue.is_lacking(job.setting) else here).append(entry)
            times.append(job.written)
    return OpenJobs(
        tuple(here),
        tuple(elsewhere),
        min(times, default=0.0),
        has_helper,
        tuple(queue.failures()),
        ", ".join([_UNREAD.format(version) for version in queue.unknown()]),
    )


def setting_of(job: Entry) -> str:
    """Return the setting of a job: a digest of the drivers' variables, the platform and the device."""
    about = [
        sorted(dict(job.metadata.get(name) or {}).items())
        for name in ("environment", "platform", "device")
    ]
    return hashlib.sha256(repr(about).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def host() -> str:
    """Return this host's name as a file's name."""
    name = os.uname().nodename if hasattr(os, "uname") else "local"
    return make_safe(name, 80) or "local"
