"""Notes on packs: what they keep, and that a bad one costs nothing but time."""

from __future__ import annotations

import contextlib
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
        "text", [b"", b"[]", b"{}", b"null", b"[1,2,3,4,5,6,7,8]", b"\xff", b"[" * 100_000]
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
    def test_taken(self):
        """A push takes up what runs used, the latest last; what an error ends is taken up again."""
        assert notes.leave(DIGEST, "app/run.py", {"binary": ["a/b"], "generator": ["c", "d"]})
        assert notes.leave(DIGEST, "app/run.py", {"binary": ["e", "a/b"]})
        notes.leave("b" * 64, "other", {"binary": ["x"]})
        assert notes.last() == "other"
        places = [("generator", "c"), ("generator", "d"), ("binary", "e"), ("binary", "a/b")]
        with contextlib.suppress(ZeroDivisionError), notes.taken(DIGEST) as found:
            assert found == places
            notes.leave(DIGEST, "app/run.py", {"binary": ["late"]})  # by a run that ends now
            raise ZeroDivisionError
        with notes.taken(DIGEST) as found:
            assert found == [*places, ("binary", "late")]
        with notes.taken(DIGEST) as found:
            assert found == []

    def test_again(self):
        """A run that uses what an earlier one used leaves nothing new, and is the later one."""
        assert notes.leave(DIGEST, "app/run.py", {"binary": ["a"]})
        assert notes.leave(DIGEST, "app/run.py", {"binary": ["b"]})
        folder = notes.path(f"{DIGEST}.used")
        for name in os.listdir(folder):
            os.utime(os.path.join(folder, name), (1, 1))
        assert not notes.leave(DIGEST, "app/run.py", {"binary": ["a"]})
        assert len(os.listdir(folder)) == 2
        with notes.taken(DIGEST) as found:
            assert found == [("binary", "b"), ("binary", "a")]

    def test_many(self):
        """The lists of many runs are joined."""
        for number in range(200):
            notes.leave(DIGEST, "app/run.py", {"binary": [str(number)]})
        assert len(os.listdir(notes.path(f"{DIGEST}.used"))) < 100
        with notes.taken(DIGEST) as found:
            assert {place for _layer, place in found} == {*map(str, range(200))}

    def test_damaged(self):
        """A line of another form is left out, and a list that others can write."""
        notes.leave(DIGEST, "app/run.py", {"binary": ["a"]})
        folder = notes.path(f"{DIGEST}.used")
        for name, text, mode in (("half", "half\na b c\n", 0o600), ("loose", "binary b\n", 0o666)):
            with open(os.path.join(folder, name), "w") as stream:
                stream.write(text)
            os.chmod(os.path.join(folder, name), mode)
        with notes.taken(DIGEST) as found:
            assert found == [("binary", "a")]


class TestArrivals:
    def test_signers(self):
        """Every key under which an entry came is kept; an entry that was made here is no arrival."""
        notes.arrived("0123", [("binary", "a/b"), ("binary", "c")])
        notes.arrived("0123", [], [("binary", "made here")])
        notes.arrived("4567", [("generator", "c")], [("binary", "a/b")])
        assert notes.arrivals() == {
            ("binary", "a/b"): {"0123", "4567"},
            ("binary", "c"): {"0123"},
            ("generator", "c"): {"4567"},
        }
        notes.forget("0123")
        assert notes.arrivals() == {("binary", "a/b"): {"4567"}, ("generator", "c"): {"4567"}}
        notes.forget("0123")
