"""kcl.cache.notes: small states by name, which cost nothing but time when they are missing."""

import os
import time

import pytest

from kcl.cache import layers, notes

pytestmark = pytest.mark.one_platform


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "kcl" / "notes"


def test_value(folder):
    """A note has the value that was written last, in a file of its user alone."""
    assert notes.read("tuned a.b") is None
    assert not folder.exists()
    for value in ({"key": "1"}, {"key": "2", "sizes": [1, 2]}):
        notes.write("tuned a.b", value)
        assert notes.read("tuned a.b") == value
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert notes.read("tuned a.c") is None


def test_off(folder, monkeypatch):
    """With both layers off no note is written or read; with one of them on notes are as ever."""
    for value, found in (("1", None), ("generator", 1)):
        monkeypatch.setenv("KCL_NO_CACHE", value)
        layers.reset()
        notes.write("a", 1)
        assert notes.read("a") == found
        assert folder.exists() == bool(found)


def test_a_note_knows_how_long_ago_it_was_written(folder):
    assert notes.age("a") is None
    notes.write("a", 1)
    (file,) = folder.iterdir()
    os.utime(file, (time.time() - 1000,) * 2)
    assert 999 < notes.age("a") < 2000


def test_removed():
    """A removed note is none, and so is a value that JSON does not have; to remove none is no error."""
    notes.write("a", 1)
    notes.remove("a")
    notes.remove("a")
    notes.write("a", {1, 2})
    assert notes.read("a") is None


def test_bounded(folder, monkeypatch):
    """The notes that were written longest ago go, and a large value is not written."""
    monkeypatch.setattr(notes, "KEPT", 3)
    for number in range(5):
        before = set(folder.iterdir()) if number else set()
        notes.write(f"note {number}", number)
        (new,) = set(folder.iterdir()) - before
        os.utime(new, (1000 + number,) * 2)
    assert len(list(folder.iterdir())) == 3
    assert [notes.read(f"note {number}") for number in range(5)] == [None, None, 2, 3, 4]
    notes.write("note 4", "x" * notes.LARGEST)
    assert notes.read("note 4") == 4


@pytest.mark.parametrize("text", [b"", b"[", b"3", b'["b", 1]', b'["a"]'])
def test_damaged(folder, text):
    """A damaged note, that of another name in its place, and one that others can write is none, and is replaced."""
    notes.write("a", 1)
    (file,) = folder.iterdir()
    file.chmod(0o666)
    assert notes.read("a") is None
    file.chmod(0o600)
    file.write_bytes(text)
    assert notes.read("a") is None
    notes.write("a", 2)
    assert notes.read("a") == 2


def test_where_nothing_can_be_written_nothing_is_raised(folder):
    folder.parent.mkdir(parents=True, mode=0o700)
    folder.write_text("a file")
    notes.write("a", 1)
    notes.remove("a")
    assert (notes.read("a"), notes.age("a")) == (None, None)
