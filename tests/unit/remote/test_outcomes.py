"""Notes on pulls and pushes: for how long they keep processes from trying again."""

import pathlib
import time

import pytest
import remotes

from kcl.base import process, settings
from kcl.cache import notes as states
from kcl.remote import outcomes
from kcl.remote.outcomes import Outcome

NOTE = "pull app"
CAME = Outcome("", 42, 1000, 0.5, "a pack")


def test_round_trip():
    """A note has its outcome; a note of another form is none, and reading makes no folder."""
    assert outcomes.read(NOTE) is None
    assert not pathlib.Path(settings.folder("kcl")).exists()
    outcomes.write(NOTE, CAME)
    assert outcomes.read(NOTE) == CAME
    for value in (None, 7, {}, [*range(9)]):
        states.write(NOTE, value)
        assert outcomes.read(NOTE) in (None, Outcome())


def test_terms(tmp_path):
    names = {outcomes.note_name(work, "app", "file:///x") for work in ("pull", "push")}
    names |= {
        outcomes.note_name("pull", "app", "file:///y"),
        outcomes.note_name("pull", "other", "file:///x"),
    }
    remotes.configure(tmp_path / "config", remote_unsigned=["file:///x"])
    names.add(outcomes.note_name("pull", "app", "file:///x"))
    assert len(names) == 5


@pytest.mark.parametrize(
    ("fault", "text", "seconds"), [("", "1h", 3600), ("cut", "1h", 60), ("cut", "10s", 10)]
)
def test_lasts(fault, text, seconds, tmp_path, ahead):
    """A failure keeps processes from trying for a minute, an answer for as long as the settings say."""
    remotes.configure(tmp_path / "config", remote_fresh=text)
    outcomes.write(NOTE, CAME._replace(fault=fault))
    for ahead[0], is_recent in ((seconds - 5, True), (seconds + 5, False), (5 - seconds, True)):
        assert (outcomes.recent(NOTE) is not None) == is_recent


def test_pause():
    """After each further failure nobody asks for twice as long, up to an hour; a success ends that."""
    rests = []
    for _ in range(9):
        outcomes.write(NOTE, CAME._replace(fault="down"))
        rests.append(outcomes.rest(outcomes.read(NOTE)))
    assert rests == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0, 3600.0]
    outcomes.write(NOTE, CAME)
    assert outcomes.rest(outcomes.read(NOTE)) == 3600.0
    outcomes.write(NOTE, CAME._replace(fault="down"))
    assert outcomes.rest(outcomes.read(NOTE)) == 60.0


def test_strict(monkeypatch, ahead):
    """Where a miss is an error, only an answer counts that came since this process began."""
    outcomes.write(NOTE, CAME)
    assert outcomes.recent(NOTE, strict=True) == CAME
    monkeypatch.setattr(process, "STARTED", time.time_ns())
    ahead[0] = 1.0
    assert outcomes.recent(NOTE, strict=True) is None
