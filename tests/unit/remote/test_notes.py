"""Notes on packs: what they keep, and that a bad one costs nothing but time."""

from __future__ import annotations

import os

import pytest

from kcl.base.settings import option
from kcl.remote import notes
from kcl.remote.notes import ABSENT, FAILED, LATE, PULLED, REFUSED, Arrival, Outcome

DIGEST = "a" * 64
FOUND = Outcome("app/run.py", PULLED, "", 42, 1000, 0.5, "terms")


class TestOutcome:
    def test_round_trip(self):
        """A note has its outcome and its age, on whichever side of now its time lies."""
        notes.write(DIGEST, FOUND)
        outcome, age = notes.read(DIGEST)
        assert outcome == FOUND
        assert age < 60
        path = notes.path(DIGEST)
        for moved in (-3600, 3600):
            os.utime(path, (1, os.stat(path).st_mtime + moved))
            assert 3500 < notes.read(DIGEST)[1] < 3700
            notes.write(DIGEST, FOUND)

    @pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"null", b"[1,2,3,4,5,6,7,8]", b"\xff", b"[" * 100_000])
    def test_damaged(self, text):
        """A damaged note is none."""
        with open(notes.path(DIGEST), "wb") as stream:
            stream.write(text)
        assert notes.read(DIGEST) is None

    def test_of_others(self):
        """A note that others can write is none."""
        notes.write(DIGEST, FOUND)
        os.chmod(notes.path(DIGEST), 0o666)
        assert notes.read(DIGEST) is None

    @pytest.mark.parametrize(
        ("state", "seconds"), [(PULLED, 3600), (ABSENT, 3600), (REFUSED, 60), (FAILED, 60), (LATE, 60)]
    )
    def test_lasts(self, state, seconds):
        """A failure keeps processes from trying for a minute, an answer for as long as the settings say."""
        assert FOUND._replace(state=state).lasts(3600) == seconds
        assert FOUND._replace(state=state).lasts(10) == 10

    def test_nothing_is_made_by_reading(self):
        """Reading makes no folder."""
        assert notes.read(DIGEST) is None
        assert (notes.last(), notes.arrivals()) == ("", [])
        assert not os.path.exists(option.folder("kcl"))


class TestRuns:
    def test_left(self, monkeypatch):
        """What runs used waits for the push, together, and the driver of the last one is known."""
        notes.leave(DIGEST, "app/run.py", {"binary": ["a/b"], "generator": ["c", "d"]})
        notes.leave(DIGEST, "app/run.py", {"binary": ["e", "a/b"]})
        notes.leave("b" * 64, "other", {"binary": []})
        assert notes.last() == "other"
        assert notes.used(DIGEST) == {"binary": {"a/b": None, "e": None}, "generator": {"c": None, "d": None}}
        with open(notes.path(f"{DIGEST}.used"), "a") as stream:
            stream.write("half a line")
        assert len(notes.used(DIGEST)["binary"]) == 2
        monkeypatch.setattr(notes, "_LARGE", 50)
        notes.leave(DIGEST, "app/run.py", {"binary": ["f"]})
        assert notes.used(DIGEST) == {"binary": {"f": None}}


class TestArrivals:
    def test_lines(self):
        """Lines are added, and those of another form are left out."""
        one = Arrival("binary", "a/b", "0123", "team", "name/0123")
        notes.arrived([one])
        notes.arrived([])
        with open(os.path.join(option.folder("kcl"), "arrivals"), "a") as stream:
            stream.write("half a line\n\n")
        notes.arrived([one._replace(layer="generator")])
        assert notes.arrivals() == [one, one._replace(layer="generator")]
