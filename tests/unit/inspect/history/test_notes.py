"""kcl.inspect.history.notes: what a later command should still say."""

from __future__ import annotations

import os
import time

from kcl import option
from kcl.caches.late_switches import Late
from kcl.inspect.history import notes

LATE = Late("pocl", "POCL_CACHE_DIR", "/x", "words", True)


def files():
    """Return the paths of the notes."""
    folder = os.path.join(option.folder("kcl"), "notes")
    return [item.path for item in os.scandir(folder)] if os.path.isdir(folder) else []


class TestKeep:
    def test_once(self):
        """What is found again is one note, with the time of the last."""
        for value in ("/x", "/y", "/x"):
            notes.keep([LATE._replace(value=value)])
        assert sorted(note.late.value for note in notes.read()) == ["/x", "/y"]
        assert notes.read()[0].late == LATE
        assert abs(notes.read()[0].time - time.time()) < 60

    def test_nothing(self):
        """Without a late switch no file is made."""
        notes.keep([])
        assert files() == []
        assert notes.read() == []

    def test_unusable(self, monkeypatch):
        """Where nothing can be written nothing is raised."""
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
        notes.keep([LATE])
        assert notes.read() == []


class TestRead:
    def test_old(self):
        """A note of more than a week ago is removed."""
        notes.keep([LATE])
        (path,) = files()
        os.utime(path, (time.time() - notes.AGE - 60,) * 2)
        assert notes.read() == []
        assert files() == []

    def test_damaged(self):
        """What is no note is passed over."""
        notes.keep([LATE, LATE._replace(value="/y")])
        with open(files()[0], "w") as stream:
            stream.write("[1, 2]")
        assert len(notes.read()) == 1

    def test_bounded(self):
        """The number of notes is bounded; the newest stay."""
        notes.keep([LATE._replace(value=str(number)) for number in range(80)])
        assert len(notes.read()) == len(files()) == 64
