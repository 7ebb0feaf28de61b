"""`kcl flush` and `kcl wait`: entries that wait are completed, here or by the helper."""

import time

import pytest
from commands import run

from kcl import cli, option
from kcl.base import settings
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.drivers.pocl.jobs import JobQueue


def test_one_command():
    """Both names are one command: where nothing waits it says so at once, and makes no directory."""
    assert len({cli.main.get_command(None, name) for name in ("flush", "wait")}) == 1
    assert run("wait").output == "every entry is complete\n"


@pytest.mark.faults
def test_nothing_is_stored(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    option.cache_dir(tmp_path / "open")
    assert "nothing can be stored" in run("flush", code=1).stderr


@pytest.mark.one_platform
def test_completes(project):
    """After it a run finds every program, completed by another process, also where none is at it."""
    project.run("pair", KCL_PROMOTE="off")
    said = project.child.output("-c", "from kcl.cli import main; main(['flush'])")
    assert said.endswith("every entry is complete\n")
    assert not JobQueue(str(project.child.cache / "kcl")).due()
    assert project.run("pair", warm=True).outcomes("binary")


class TestLeft:
    @pytest.fixture
    def started(self, monkeypatch):
        helpers = []
        monkeypatch.setattr("kcl.drivers.pocl.client._spawn", lambda *_: helpers.append(1))
        return helpers

    def queue(self, **metadata):
        made = JobQueue(settings.folder("kcl"))
        made.add(Entry(Key([("source", "1")]), {"kernel": "add", **metadata}, {}))
        return made

    @pytest.mark.parametrize(
        ("is_held", "words"), [(False, "run `kcl flush`"), (True, "a helper is at it")]
    )
    def test_timeout(self, started, is_held, words):
        """What nobody completes in time is counted, and the exit status is 1; a helper at work is waited for."""
        queue = self.queue()
        lock = queue.lock() if is_held else None
        began = time.monotonic()
        done = run("flush", "--timeout", "0.3", code=1)
        assert done.output == f"1 program waits to be completed: {words}\n"
        assert 0.3 * is_held <= time.monotonic() - began < 20
        assert (lock is not None, bool(started)) == (is_held, not is_held)

    def test_other_device(self, started):
        """A job for a device that this machine lacks is named with that device, and is no failure."""
        queue = self.queue(device={"name": "Another CPU"})
        queue.note_device(queue.jobs()[0].setting, False)
        assert run("wait").output.startswith("1 job is for another device (Another CPU): run ")
        assert not started
