"""Notes on packs: what they keep, and that a bad one costs nothing but time."""

from __future__ import annotations

import os
import time

import pytest
import remotes

from kcl.base import process
from kcl.base.settings import option
from kcl.remote import notes, used
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
        path = used.path(DIGEST)
        for moved in (-3600, 3600):
            os.utime(path, (1, os.stat(path).st_mtime + moved))
            assert 3500 < notes.read(DIGEST)[1] < 3700
            notes.write(DIGEST, FOUND)

    @pytest.mark.parametrize(
        "text", [b"", b"[]", b"{}", b"null", b"[1,2,3,4,5,6,7,8,9]", b"\xff", b"[" * 100_000]
    )
    def test_damaged(self, text):
        """A damaged note is none."""
        with open(used.path(DIGEST), "wb") as stream:
            stream.write(text)
        assert notes.read(DIGEST) is None

    def test_of_others(self):
        """A note that others can write is none."""
        notes.write(DIGEST, FOUND)
        os.chmod(used.path(DIGEST), 0o666)
        assert notes.read(DIGEST) is None

    @pytest.mark.parametrize(
        ("fault", "text", "seconds"), [("", "1h", 3600), ("cut", "1h", 60), ("cut", "10s", 10)]
    )
    def test_lasts(self, fault, text, seconds, tmp_path):
        """A failure keeps processes from trying for a minute, an answer for as long as the settings say."""
        remotes.configure(tmp_path / "config", remote_fresh=text)
        for age, is_recent in ((seconds - 5, True), (seconds + 5, False)):
            notes.write(DIGEST, FOUND)  # no failure before
            notes.write(DIGEST, FOUND._replace(fault=fault))
            os.utime(used.path(DIGEST), (1, time.time() - age))
            assert (notes.recent(DIGEST, "terms", strict=False) is not None) == is_recent
            assert notes.recent(DIGEST, "others", strict=False) is None

    def test_pause(self):
        """After each further failure nobody asks for twice as long, up to an hour; a success ends that."""
        failed = FOUND._replace(fault="down")
        rests = []
        for _ in range(9):
            notes.write(DIGEST, failed)
            rests.append(notes.rest(notes.read(DIGEST)[0]))
        assert rests == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0, 3600.0]
        notes.write(DIGEST, failed._replace(terms="other"))
        assert notes.rest(notes.read(DIGEST)[0]) == 60.0
        notes.write(DIGEST, FOUND)
        assert notes.rest(notes.read(DIGEST)[0]) == 3600.0

    def test_strict(self, monkeypatch):
        """Where a miss is an error, only an answer counts that came since this process began."""
        notes.write(DIGEST, FOUND)
        assert notes.recent(DIGEST, "terms", strict=True) == FOUND
        monkeypatch.setattr(process, "STARTED", time.time_ns())
        os.utime(used.path(DIGEST), (1, time.time() - 1))
        assert notes.recent(DIGEST, "terms", strict=True) is None

    def test_nothing_is_made_by_reading(self):
        """Reading makes no folder."""
        assert notes.read(DIGEST) is None
        assert (used.last(), notes.arrivals()) == ("", {})
        assert not os.path.exists(option.folder("kcl"))


class TestArrivals:
    def test_signers(self):
        """Every key under which an entry came is kept, until its entries are gone."""
        assert notes.arriving("0123", [("binary", "a/b"), ("binary", "c")]) == {}
        before = notes.arriving("4567", [("generator", "c"), ("binary", "a/b")])
        assert before == {("binary", "a/b"): {"0123"}, ("binary", "c"): {"0123"}}
        assert notes.arrivals() == {
            ("binary", "a/b"): {"0123", "4567"},
            ("binary", "c"): {"0123"},
            ("generator", "c"): {"4567"},
        }
        notes.settle("0123", gone=[("binary", "a/b")])
        assert notes.arrivals()["binary", "a/b"] == {"4567"}
        notes.settle("0123", gone=[("binary", "c")])
        notes.settle("4567", [("binary", "d")], [("binary", "a/b"), ("generator", "c")])
        assert notes.arrivals() == {("binary", "d"): {"4567"}}

    def test_made_again(self):
        """What was made here is forgotten under each key; a file that cannot be believed stays as it is."""
        for signer in ("0123", "4567"):
            notes.arriving(signer, [("binary", "a"), ("binary", "b")])
        notes.made([("binary", "a"), ("binary", "c")])
        assert notes.arrivals() == {("binary", "b"): {"0123", "4567"}}
        os.chmod(os.path.join(option.folder("kcl"), "signers", "0123"), 0o666)
        notes.made([("binary", "b")])
        os.chmod(os.path.join(option.folder("kcl"), "signers", "0123"), 0o600)
        assert notes.arrivals() == {("binary", "b"): {"0123", "4567"}}

    def test_unreadable(self):
        """A file that cannot be believed is an error: what came is not forgotten, and not signed anew."""
        notes.arriving("0123", [("binary", "a")])
        os.chmod(os.path.join(option.folder("kcl"), "signers", "0123"), 0o666)
        for act in (notes.arrivals, lambda: notes.arriving("0123", [("binary", "b")])):
            with pytest.raises(OSError, match="others can write"):
                act()
