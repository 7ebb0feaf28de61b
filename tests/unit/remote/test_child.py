"""The child that talks to a remote: how it is started, and that it is bounded."""

from __future__ import annotations

import json
import os
import time

import pytest
import remotes

from kcl.remote import child, driver, notes
from kcl.remote.notes import Outcome
from kcl.remote.stores import RemoteFault


def test_wait():
    """What a child says is returned at its end, and a wait ends in time; the descriptor is closed either way."""
    for seconds, ends in ((5.0, True), (0.05, False)):
        reader, writer = os.pipe()
        os.write(writer, b"said")
        if ends:
            os.close(writer)
        started = time.monotonic()
        assert child.wait(reader, seconds) == (b"said" if ends else None)
        assert time.monotonic() - started < 2.0
        with pytest.raises(OSError, match="descriptor"):
            os.close(reader)
        if not ends:
            os.close(writer)


def test_too_long(monkeypatch):
    """A request that a pipe cannot take is refused, as nobody reads it yet."""
    monkeypatch.setattr("sys.path", ["/" + "x" * 70_000])
    with pytest.raises(RemoteFault, match="too long"):
        child.start({"work": "pull"})


def test_note(tmp_path):
    """What a child is asked is done, and noted under the name of the driver."""
    address = (tmp_path / "remote").as_uri()
    remotes.configure(tmp_path / "config", remote_unsigned=[address])
    for work, note, state in (("pull", "", "absent"), ("push", ".pushed", "nothing new")):
        said = child.wait(child.start({"work": work, "driver": "app/run.py", "address": address}), 60.0)
        outcome, _age = notes.read(driver.digest("app/run.py") + note)
        assert Outcome(*json.loads(said)) == outcome
        assert (outcome.state, outcome.driver, outcome.terms) == (state, "app/run.py", driver.terms(address))


def test_attempt(tmp_path):
    """A try leaves no note, and no folder."""
    address = (tmp_path / "remote").as_uri()
    remotes.configure(tmp_path / "config", remote_unsigned=[address])
    said = child.wait(child.start({"work": "attempt", "driver": "app/run.py", "address": address}), 60.0)
    assert json.loads(said)[:2] == ["app/run.py", "absent"]
    assert not (tmp_path / "cache").exists()
