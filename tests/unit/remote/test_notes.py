"""Notes on pulls and pushes: for how long they keep processes from trying again."""

from __future__ import annotations

import pathlib
import time

import pytest
import remotes

from kcl.base import process, settings
from kcl.cache import notes as states
from kcl.remote import notes
from kcl.remote.notes import Outcome

NOTE = "pull app"
CAME = Outcome("", 42, 1000, 0.5, "a pack")


@pytest.fixture
def days(monkeypatch):
    """A list with the seconds by which the clock is ahead."""
    ahead, now = [0.0], time.time
    monkeypatch.setattr(states.time, "time", lambda: now() + ahead[0])
    return ahead


def test_round_trip():
    """A note has its outcome; a note of another form is none, and reading makes no folder."""
    assert notes.read(NOTE) is None
    assert not pathlib.Path(settings.folder("kcl")).exists()
    notes.write(NOTE, CAME)
    assert notes.read(NOTE) == CAME
    for value in (None, 7, {}, [*range(9)]):
        states.write(NOTE, value)
        assert notes.read(NOTE) in (None, Outcome())


def test_terms(tmp_path):
    """Pull and push, another remote and other trusted keys have notes of their own."""
    names = {notes.name(work, "app", "file:///x") for work in ("pull", "push")}
    names |= {notes.name("pull", "app", "file:///y"), notes.name("pull", "other", "file:///x")}
    remotes.configure(tmp_path / "config", remote_unsigned=["file:///x"])
    names.add(notes.name("pull", "app", "file:///x"))
    assert len(names) == 5


@pytest.mark.parametrize(
    ("fault", "text", "seconds"), [("", "1h", 3600), ("cut", "1h", 60), ("cut", "10s", 10)]
)
def test_lasts(fault, text, seconds, tmp_path, days):
    """A failure keeps processes from trying for a minute, an answer for as long as the settings say."""
    remotes.configure(tmp_path / "config", remote_fresh=text)
    notes.write(NOTE, CAME._replace(fault=fault))
    for days[0], is_recent in ((seconds - 5, True), (seconds + 5, False), (5 - seconds, True)):
        assert (notes.recent(NOTE) is not None) == is_recent


def test_pause():
    """After each further failure nobody asks for twice as long, up to an hour; a success ends that."""
    rests = []
    for _ in range(9):
        notes.write(NOTE, CAME._replace(fault="down"))
        rests.append(notes.rest(notes.read(NOTE)))
    assert rests == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0, 3600.0]
    notes.write(NOTE, CAME)
    assert notes.rest(notes.read(NOTE)) == 3600.0
    notes.write(NOTE, CAME._replace(fault="down"))
    assert notes.rest(notes.read(NOTE)) == 60.0


def test_strict(monkeypatch, days):
    """Where a miss is an error, only an answer counts that came since this process began."""
    notes.write(NOTE, CAME)
    assert notes.recent(NOTE, strict=True) == CAME
    monkeypatch.setattr(process, "STARTED", time.time_ns())
    days[0] = 1.0
    assert notes.recent(NOTE, strict=True) is None


def test_refused_push():
    """A push that failed is said, until one succeeds."""
    note = notes.name("push", "app", "file:///x")
    assert notes.refused_push("app", "file:///x") == ""
    notes.write(note, Outcome("no room"))
    assert notes.refused_push("app", "file:///x") == "the last push failed: no room"
    notes.write(note, CAME)
    assert notes.refused_push("app", "file:///x") == ""
