"""The end of a process with a remote: what it leaves for the next push, and when it pushes."""

from __future__ import annotations

import os
import time

import remotes

from kcl.base import process
from kcl.cache import layers, run_memo
from kcl.remote import driver, ending, notes, project, used


def test_left(monkeypatch, tmp_path):
    """What the process used in all layers and memos waits for a push, and nothing is imported that pushes."""
    monkeypatch.setenv("KCL_REMOTE", tmp_path.as_uri())
    layers.generator().used["a"] = None
    layers.binary().used["b"] = None
    run_memo.use("tuning", "c")
    ending.at_exit()
    with used.taken(project.name()) as found:
        assert found == [("generator", "a"), ("binary", "b"), ("tuning", "c")]
    process.reset()
    ending.at_exit()
    assert not used.waits(project.name())


def test_when_pushed(monkeypatch, tmp_path):
    """A run pushes what no push had, not again what one had, nor soon after a failure; once an hour all."""
    monkeypatch.setenv("KCL_REMOTE", tmp_path.as_uri())
    remotes.configure(tmp_path / "config", remote_write="exit")
    pushes, digest = [], driver.digest(project.name())
    monkeypatch.setattr("kcl.remote.child.run", lambda *given, **_more: pushes.append(given[0]))

    def ends(*addresses, fault="", age=0.0):
        layers.generator().used = dict.fromkeys(addresses)
        notes.write(f"{digest}.pushed", notes.Outcome(project.name(), fault))
        os.utime(used.path(f"{digest}.pushed"), (1, time.time() - age))
        pushes.clear()
        ending.at_exit()
        return bool(pushes)

    assert ends("a")
    with used.taken(project.name()):
        pass
    assert not ends("a")
    assert ends("a", age=3700.0)
    assert ends("b")
    assert not ends("c", fault="down")
    assert not ends("d", fault="down", age=70.0)
    assert ends("d", fault="down", age=250.0)
