"""kcl.programs.open_jobs: what waits to be completed, in sentences."""

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.programs.open_jobs import OpenJobs


def test_devices():
    """Jobs are counted for each device that this host lacks; a job without a device counts as unknown."""
    named = Entry(Key([("n", "1")]), {"device": {"name": "Far"}}, {})
    jobs = OpenJobs(elsewhere=(named, named, Entry(Key([("n", "2")]), {}, {})))
    assert jobs.devices() == {"Far": 2, "unknown": 1}
    assert jobs.described() == [
        "2 jobs are for another device (Far): run `kcl flush` on a machine that has it",
        "1 job is for another device (unknown): run `kcl flush` on a machine that has it",
    ]


def test_of_nothing_open_nothing_is_said():
    assert OpenJobs().described() == []
