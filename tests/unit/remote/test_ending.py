"""The end of a process with a remote: what it leaves for the next push, and when it pushes."""

import remotes

from kcl.base import process
from kcl.cache import layers, run_memo
from kcl.cache import notes as states
from kcl.cache.key import Key, Part
from kcl.remote import ending, outcomes, project, used


def test_left(monkeypatch, tmp_path):
    """What the process used in all layers and memos waits for a push, and nothing is imported that pushes."""
    monkeypatch.setenv("KCL_REMOTE", tmp_path.as_uri())
    layers.generator().used["a"] = False
    layers.binary().used["b"] = False
    memo = run_memo.RunMemo(Key([Part("a", "b")]))
    ending.at_exit()
    with used.take(project.name()) as found:
        assert found == [("generator", "a"), ("binary", "b"), ("shapes", memo._address)]
    process.reset()
    ending.at_exit()
    assert not used.waits(project.name())


def test_when_pushed(monkeypatch, tmp_path, ahead):
    """A run pushes if it made an entry, but not soon after a failure; once an hour any run does."""
    monkeypatch.setenv("KCL_REMOTE", tmp_path.as_uri())
    remotes.configure(tmp_path / "config", remote_write="exit")
    pushes, note = [], outcomes.note_name("push", project.name(), tmp_path.as_uri())
    monkeypatch.setattr("kcl.remote.child.run", lambda *given: pushes.append(given[0]))

    def ends(has_made, fault="", age=0.0):
        layers.generator().used = {"a": has_made}
        states.remove(note)
        if fault is not None:
            outcomes.write(note, outcomes.Outcome(fault))
        ahead[0] = age
        pushes.clear()
        ending.at_exit()
        return bool(pushes)

    assert ends(has_made=False, fault=None)
    assert ends(has_made=True)
    assert not ends(has_made=False)
    assert ends(has_made=False, age=3700.0)
    assert not ends(has_made=True, fault="down")
    assert ends(has_made=False, fault="down", age=70.0)
