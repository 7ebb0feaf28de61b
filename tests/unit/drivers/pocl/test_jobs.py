"""kcl.drivers.pocl.jobs: the queue on disk and its lock."""

import os
import pathlib
import time

import pytest

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.locks import close_lock
from kcl.drivers.pocl.jobs import LONGEST_AGE, JobQueue, host, setting_of


def entry(name):
    return Entry(Key([("name", name)]), {"kernels": [name]}, {"source.cl": b"source"})


@pytest.fixture
def queue(tmp_path):
    return JobQueue(str(tmp_path / "kcl"))


class TestQueue:
    def test_oldest_first(self, queue):
        for age, name in enumerate("abc"):
            queue.add(entry(name))
            path = f"{queue.folder}/{setting_of(entry(name))}/{entry(name).key.digest}"
            os.utime(path, (1e9 - age, 1e9 - age))
        assert [queue.read(job) for job in queue.jobs()] == [entry(name) for name in "cba"]

    def test_drop(self, queue):
        """A job and its folders are for nobody else; a dropped one is gone; dropping it twice is no error."""
        queue.add(entry("a"))
        (job,) = queue.jobs()
        path = pathlib.Path(queue.folder, job.address)
        assert path.stat().st_mode & 0o777 == 0o600
        assert {folder.stat().st_mode & 0o777 for folder in [*path.parents][:3]} == {0o700}
        for _ in range(2):
            queue.drop(job.address)
        assert not queue.due()
        assert os.listdir(queue.folder) == []

    def test_failure(self, queue):
        """The reason of a job that failed is shown until a job of its key is done; a month later it is gone."""
        queue.add(entry("a"))
        (job,) = queue.jobs()
        queue.drop(job.address, "a: ValueError: no")
        assert queue.jobs() == []
        queue.add(entry("a"))
        assert queue.failures() == ["a: ValueError: no"]
        queue.drop(f"under-another-setting/{job.digest}")
        assert queue.failures() == []
        queue.drop(job.address, "a: ValueError: no")
        (note,) = pathlib.Path(queue.folder).iterdir()
        os.utime(note, (1e9, 1e9))
        queue.sweep()
        assert queue.failures() == []

    def test_settings(self):
        """Jobs under other variables of the driver, or for another device, lie in folders of their own."""
        kinds = [
            {},
            {"environment": {"X": "1"}},
            {"device": {"name": "d"}},
            {"platform": {"name": "p"}},
        ]
        jobs = [Entry(Key([("name", "")]), about, {}) for about in kinds]
        assert len(set(map(setting_of, jobs))) == 4
        same = Entry(Key([("name", "other")]), {"kernels": ["k"], "process": 7}, {})
        assert setting_of(same) == setting_of(jobs[0])

    def test_lacking_device(self, queue):
        """Jobs for a device that this host lacks are listed, and count as none to do, until the device is there."""
        queue.add(entry("a"))
        (job,) = queue.jobs()
        queue.note_device(job.setting, False)
        assert queue.jobs() == [job]
        assert not queue.due()
        queue.note_device(job.setting, True)
        assert queue.due() == [job]


def test_while_the_lock_is_held_a_helper_is_alive_and_no_other_can_be(queue):
    os.makedirs(queue.folder, 0o700)
    held = queue.lock()
    assert queue.has_helper()
    assert queue.lock() is None
    close_lock(held)
    assert not queue.has_helper()


def test_leftovers(queue, tmp_path):
    """What nobody did for a month goes, and what killed processes left; a queue of today stays."""
    queue.add(entry("new"))
    pending = pathlib.Path(queue.folder)
    for name in ("0" * 32, f"work-{host()}-17", f"work-{host()}-other-17"):
        (pending / name).mkdir()
        (pending / name / ("0" * 64)).touch()
    flight = tmp_path / "kcl" / "flight"
    flight.mkdir()
    for name in ("old", "new"):
        (flight / name).touch()
    then = time.time() - LONGEST_AGE - 60
    for path in (pending / ("0" * 32), flight / "old"):
        os.utime(path, (then, then))
    queue.sweep()
    assert set(os.listdir(pending)) == {setting_of(entry("new")), f"work-{host()}-other-17"}
    assert os.listdir(flight) == ["new"]
