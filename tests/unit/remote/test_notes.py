"""Notes on packs: what they keep, and that a bad one costs nothing but time."""

from __future__ import annotations

import os
import time

import pytest
import remotes

from kcl.base import process
from kcl.base.settings import option
from kcl.remote import notes
from kcl.remote.notes import Outcome

DIGEST = "a" * 64
FOUND = Outcome("app/run.py", "", 42, 1000, 0.5, "terms")


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

    @pytest.mark.parametrize(
        "text", [b"", b"[]", b"{}", b"null", b"[1,2,3,4,5,6,7]", b"\xff", b"[" * 100_000]
    )
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
        ("fault", "text", "seconds"), [("", "1h", 3600), ("cut", "1h", 60), ("cut", "10s", 10)]
    )
    def test_lasts(self, fault, text, seconds, tmp_path):
        """A failure keeps processes from trying for a minute, an answer for as long as the settings say."""
        remotes.configure(tmp_path / "config", remote_fresh=text)
        found = FOUND._replace(fault=fault)
        for age, outcome in ((seconds - 5, found), (seconds + 5, None)):
            notes.write(DIGEST, found)
            os.utime(notes.path(DIGEST), (1, time.time() - age))
            assert notes.recent(DIGEST, "terms", strict=False) == outcome
            assert notes.recent(DIGEST, "others", strict=False) is None

    def test_strict(self, monkeypatch):
        """Where a miss is an error, only an answer counts that came since this process began."""
        notes.write(DIGEST, FOUND)
        assert notes.recent(DIGEST, "terms", strict=True) == FOUND
        monkeypatch.setattr(process, "STARTED", time.time_ns())
        os.utime(notes.path(DIGEST), (1, time.time() - 1))
        assert notes.recent(DIGEST, "terms", strict=True) is None

    def test_nothing_is_made_by_reading(self):
        """Reading makes no folder."""
        assert notes.read(DIGEST) is None
        assert (notes.last(), notes.arrivals()) == ("", {})
        assert not os.path.exists(option.folder("kcl"))


class TestRuns:
    def test_left(self, monkeypatch):
        """What runs used waits for the push, together, and the driver of the last one is known."""
        notes.leave(DIGEST, "app/run.py", {"binary": ["a/b"], "generator": ["c", "d"]})
        notes.leave(DIGEST, "app/run.py", {"binary": ["e", "a/b"]})
        notes.leave("b" * 64, "other", {"binary": []})
        assert notes.last() == "other"
        assert [*notes.used(DIGEST)] == [
            ("binary", "a/b"),
            ("generator", "c"),
            ("generator", "d"),
            ("binary", "e"),
        ]
        with open(notes.path(f"{DIGEST}.used"), "a") as stream:
            stream.write("half\n")
        assert len(notes.used(DIGEST)) == 4
        monkeypatch.setattr(notes, "_LARGE", 50)
        notes.leave(DIGEST, "app/run.py", {"binary": ["f"]})
        assert [*notes.used(DIGEST)] == [("binary", "f")]


class TestArrivals:
    def test_lines(self):
        """Lines are added, the last on an entry counts, and those of another form are left out."""
        notes.arrived("name/0123", [("binary", "a/b"), ("binary", "c")])
        notes.arrived("name/0123", [])
        with open(os.path.join(option.folder("kcl"), "arrivals"), "a") as stream:
            stream.write("half a\n\n")
        notes.arrived("name/4567", [("generator", "c"), ("binary", "a/b")])
        expected = {("binary", "a/b"): "4567", ("binary", "c"): "0123", ("generator", "c"): "4567"}
        assert notes.arrivals() == expected
