"""`kcl wait`: wait for the helper, and leave the work to it."""

from __future__ import annotations

import time

import pytest
from commands import run

from kcl import option
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.drivers.pocl.jobs import Queue


@pytest.fixture
def queue(monkeypatch):
    """A queue with one job; no helper can be started."""
    monkeypatch.setattr("kcl.drivers.pocl.client._spawn", lambda *_: pytest.fail("a helper was started"))
    made = Queue(option.folder("kcl"))
    made.add(Entry(Key([("source", "1")]), {"kernel": "add"}, {}))
    return made


class TestWait:
    def test_nothing_waits(self):
        """Where nothing waits it says so at once."""
        assert run("wait").output == "every entry is complete\n"

    def test_no_helper(self, queue):
        """Where nobody works it ends soon, starts nobody, and says what does."""
        started = time.monotonic()
        done = run("wait", code=1)
        assert done.output == "1 program is still being completed (kcl flush starts a helper)\n"
        assert time.monotonic() - started < 20
        assert len(queue.jobs()) == 1

    def test_timeout(self, queue):
        """While a helper works it waits as long as it is told to, and says how many are left."""
        assert queue.lock() is not None  # as a helper holds it
        started = time.monotonic()
        done = run("wait", "--timeout", "0.3", code=1)
        assert done.output == "1 program is still being completed\n"
        assert 0.3 <= time.monotonic() - started < 20
