"""kcl.drivers.pocl.jobs: the queue on disk and its lock."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.drivers.pocl.jobs import AGAIN, LONGEST_AGE, NEW, TRYING, JobQueue, node


def entry(name: str) -> Entry:
    return Entry(Key([("name", name)]), {"kernels": [name]}, {"source.cl": b"source"})


@pytest.fixture
def queue(tmp_path: pathlib.Path) -> JobQueue:
    return JobQueue(str(tmp_path / "kcl"))


class TestQueue:
    def test_empty(self, queue: JobQueue) -> None:
        """Asking an empty queue finds nothing and makes no directory."""
        digest = entry("a").key.digest
        assert queue.jobs() == []
        assert queue.is_empty()
        assert queue.state(digest) is None
        assert queue.age(digest) == 0
        assert not queue.has_helper()
        assert not os.path.exists(queue.folder)

    def test_oldest_first(self, queue: JobQueue) -> None:
        """Jobs are listed in the order of their times, in whatever state they are."""
        for age, name in enumerate("abc"):
            queue.add(entry(name))
            os.utime(f"{queue.folder}/{NEW}/{entry(name).key.digest}", (1e9 - age, 1e9 - age))
        queue.move(queue.jobs()[1], TRYING)
        assert [queue.read(job).metadata["kernels"] for job in queue.jobs()] == [["c"], ["b"], ["a"]]

    def test_states(self, queue: JobQueue) -> None:
        """A job is pending in every state, until it is dropped."""
        queue.add(entry("a"))
        (job,) = queue.jobs()
        assert queue.state(job.digest) == NEW
        for state in (TRYING, AGAIN, NEW):
            job = queue.move(job, state)
            assert queue.state(job.digest) == state
            assert not queue.is_empty()
        queue.drop(job)
        queue.drop(job)
        assert queue.state(job.digest) is None
        assert queue.is_empty()

    def test_written_as_entries_are(self, queue: JobQueue) -> None:
        """Job and folders are for nobody else to read or write."""
        queue.add(entry("a"))
        (path,) = pathlib.Path(queue.folder, NEW).iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            assert folder.stat().st_mode & 0o777 == 0o700

    def test_damaged(self, queue: JobQueue) -> None:
        """A damaged job is dropped when it is read."""
        queue.add(entry("a"))
        (job,) = queue.jobs()
        pathlib.Path(queue.folder, NEW, job.digest).write_bytes(b"damage")
        assert queue.read(job) is None
        assert queue.is_empty()

    def test_node(self, queue: JobQueue) -> None:
        """Every node has a queue of its own, in a folder with a harmless name."""
        assert os.path.basename(queue.folder) == node()
        assert os.path.basename(os.path.dirname(queue.folder)) == "pending"
        assert node().strip("._") == node()


class TestLock:
    def test_one_holder(self, queue: JobQueue) -> None:
        """While the lock is held a helper is alive, and no other can be."""
        os.makedirs(queue.folder, 0o700)
        held = queue.lock()
        assert queue.has_helper()
        assert queue.lock() is None
        os.close(held)
        assert not queue.has_helper()

    def test_asking_does_not_hinder(self, queue: JobQueue) -> None:
        """Those who ask leave nothing locked."""
        os.makedirs(queue.folder, 0o700)
        os.close(queue.lock())
        assert not any(queue.has_helper() for _ in range(100))
        held = queue.lock()
        assert held is not None
        os.close(held)


class TestSweep:
    def test_dead_nodes(self, queue: JobQueue, tmp_path: pathlib.Path) -> None:
        """What lay untouched for a day goes: other nodes' queues and leaders' locks; our own queue stays."""
        queue.add(entry("mine"))
        for name in ("dead", "alive"):
            other = JobQueue(str(tmp_path / "kcl"))
            other.folder = f"{tmp_path}/kcl/pending/{name}"
            other._files.location = other.folder
            other.add(entry(name))
        (tmp_path / "kcl" / "flight").mkdir()
        for name in ("old", "new"):
            (tmp_path / "kcl" / "flight" / name).touch()
        then = time.time() - LONGEST_AGE - 60
        old = [queue.folder, f"{tmp_path}/kcl/pending/dead", f"{tmp_path}/kcl/flight/old"]
        for path in old:
            for place in (path, *pathlib.Path(path).rglob("*")):
                os.utime(place, (then, then))
        queue.sweep()
        assert sorted(os.listdir(f"{tmp_path}/kcl/pending")) == sorted(["alive", node()])
        assert os.listdir(f"{tmp_path}/kcl/flight") == ["new"]
        assert len(queue.jobs()) == 1

    def test_nothing_there(self, queue: JobQueue) -> None:
        """Without a folder there is nothing to sweep, and none is made."""
        queue.sweep()
        assert not os.path.exists(queue.folder)
