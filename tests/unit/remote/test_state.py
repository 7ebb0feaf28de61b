"""The state of the remote, in words."""

import pytest
import remotes

from kcl.remote import outcomes, project, state, used
from kcl.remote.outcomes import Outcome

pytestmark = pytest.mark.faults


@pytest.fixture
def address(tmp_path, monkeypatch):
    found = remotes.directory(tmp_path / "remote")
    monkeypatch.setenv("KCL_REMOTE", found)
    remotes.configure(tmp_path / "config", remote_unsigned=[found])
    return found


def test_none():
    assert state.facts()["words"] == []
    assert state.facts()["address"] == ""
    assert state.attempt() == ("", "")


def test_lines(address, monkeypatch, tmp_path):
    """What came is counted, what was refused is said with its reason; a remote that is not asked says why."""
    assert state.facts()["words"] == [
        f"remote {address}: read only; 0 entries of {project.name()} came, 0 bytes in 0.0 s"
    ]
    used.leave("app", [("binary", "a")])
    outcomes.write(
        outcomes.note_name("pull", "app", address), Outcome("it is not signed", 42, 1000, 0.25)
    )
    outcomes.write(outcomes.note_name("push", "app", address), Outcome("no room", 7, 7, 7.0))
    first, second, third = state.facts()["words"]
    assert first.endswith("42 entries of app came, 1000 bytes in 0.2 s")
    assert second == "remote: app: it is not signed"
    assert third == "remote: app: no room"
    monkeypatch.setenv("KCL_NO_CACHE", "1")
    assert "not asked: KCL_NO_CACHE=1" in state.facts()["words"][0]
    assert "KCL_NO_CACHE" in state.attempt()[1]
    monkeypatch.delenv("KCL_NO_CACHE")
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("os.access", lambda *_asked: False)
    assert "cannot be written" in state.facts()["words"][0]


def test_attempt(address, monkeypatch, tmp_path):
    """A remote that answers is fine; what is wrong with another is said with its cure."""
    fine, wrong = state.attempt()
    assert (fine.startswith(f"{address} answers in "), wrong) == (True, "")
    name = outcomes.note_name("push", project.name(), address)
    outcomes.write(name, Outcome("no right to write"))
    assert state.attempt()[1] == f"{address}: the last push failed: no right to write"
    outcomes.write(name, Outcome())
    assert state.attempt()[1] == ""
    monkeypatch.setenv("KCL_REMOTE", "ftp://host/x")
    assert "redis://" in state.attempt()[1]
    monkeypatch.setenv("KCL_REMOTE", address)
    remotes.configure(tmp_path / "config")
    assert "kcl key trust" in state.attempt()[1]
