"""`kcl flush` and `kcl wait`: entries that wait are completed, here or by the helper."""

import time

import pytest
from click.testing import CliRunner
from commands import run

from kcl import option
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cli import main
from kcl.drivers.pocl.jobs import JobQueue


def flush(*arguments):
    """Run the command in this process."""
    return CliRunner().invoke(main, ["flush", *arguments])


class TestFlush:
    def test_nothing_waits(self):
        """Where nothing waits it says so at once, and makes no directory."""
        done = flush()
        assert done.exit_code == 0, done.output
        assert done.output == "every entry is complete\n"

    def test_nothing_is_stored(self, tmp_path):
        """Where the layers are in memory only nothing is complete: the exit status is 1."""
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        option.cache_dir(tmp_path / "open")
        done = flush()
        assert done.exit_code == 1
        assert "nothing can be stored" in done.stderr

    def test_left(self, monkeypatch):
        """What nobody completes in time is counted, and the exit status is 1."""
        monkeypatch.setattr("kcl.drivers.pocl.client._spawn", lambda *_: None)
        JobQueue(option.folder("kcl")).add(Entry(Key([("source", "1")]), {"kernel": "add"}, {}))
        started = time.monotonic()
        done = flush("--seconds", "0.5")
        assert done.exit_code == 1, done.output
        assert done.output == "1 program waits to be completed: run `kcl flush`\n"
        assert time.monotonic() - started < 20

    @pytest.mark.one_platform
    @pytest.mark.parametrize("command", ["flush", "wait"])
    def test_completes(self, project, command):
        """After it a run finds every program, completed by another process, also where none is at it."""
        project.run("pair", KCL_PROMOTE="off")
        done = project.child.run(f"from kcl.cli import main; main(['{command}'])")
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("every entry is complete\n")
        assert not JobQueue(str(project.child.cache / "kcl")).due()
        assert project.run("pair", warm=True).outcomes("binary")


@pytest.fixture
def queue(monkeypatch):
    """A queue with one job; no helper can be started."""
    monkeypatch.setattr(
        "kcl.drivers.pocl.client._spawn", lambda *_: pytest.fail("a helper was started")
    )
    made = JobQueue(option.folder("kcl"))
    made.add(Entry(Key([("source", "1")]), {"kernel": "add"}, {}))
    return made


class TestWait:
    def test_nothing_waits(self):
        """Where nothing waits it says so at once."""
        assert run("wait").output == "every entry is complete\n"

    def test_timeout(self, queue):
        """While a helper works it waits as long as it is told to, and says how many are left."""
        assert queue.lock() is not None  # as a helper holds it
        started = time.monotonic()
        done = run("wait", "--timeout", "0.3", code=1)
        assert done.output == "1 program waits to be completed: a helper is at it\n"
        assert 0.3 <= time.monotonic() - started < 20

    def test_other_device(self, queue):
        """A job for a device that this machine lacks is named with that device, and is no failure."""
        (job,) = queue.jobs()
        queue.drop(job.address)
        queue.add(
            Entry(Key([("source", "2")]), {"kernel": "add", "device": {"name": "Another CPU"}}, {})
        )
        queue.note_device(queue.jobs()[0].setting, False)
        done = run("wait")
        assert (
            done.output
            == "1 job is for another device (Another CPU): run `kcl flush` on a machine that has it\n"
        )
