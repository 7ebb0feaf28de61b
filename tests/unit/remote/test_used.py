"""What runs used, in lists that wait for a push."""

from __future__ import annotations

import contextlib
import hashlib
import os

from kcl.remote import used

NAME = "app"


def lists():
    """Return the folder of the lists."""
    return used.path(f"{hashlib.sha256(NAME.encode()).hexdigest()[:32]}.used")


def test_taken():
    """A push takes up what runs used, the latest last; what an error ends is taken up again."""
    assert used.leave(NAME, {"binary": ["a/b"], "generator": ["c", "d"]})
    assert used.leave(NAME, {"binary": ["e", "a/b"]})
    used.leave("other", {"binary": ["x"]})
    assert used.last() == "other"
    places = [("generator", "c"), ("generator", "d"), ("binary", "e"), ("binary", "a/b")]
    with contextlib.suppress(ZeroDivisionError), used.taken(NAME) as found:
        assert found == places
        used.leave(NAME, {"binary": ["late"]})  # by a run that ends now
        raise ZeroDivisionError
    with used.taken(NAME) as found:
        assert found == [*places, ("binary", "late")]
    with used.taken(NAME) as found:
        assert found == []


def test_again():
    """A run that uses what an earlier one used leaves nothing new, and is the later one."""
    assert used.leave(NAME, {"binary": ["a"]})
    assert used.leave(NAME, {"binary": ["b"]})
    folder = lists()
    for name in os.listdir(folder):
        os.utime(os.path.join(folder, name), (1, 1))
    assert not used.leave(NAME, {"binary": ["a"]})
    assert len(os.listdir(folder)) == 2
    with used.taken(NAME) as found:
        assert found == [("binary", "b"), ("binary", "a")]


def test_many():
    """The lists of many runs are joined, also if the last run used all that they have."""
    for number in range(64):
        used.leave("all", {"binary": [str(number)]})
    used.leave("all", {"binary": [*map(str, range(64))]})
    with used.taken("all") as found:
        assert len(found) == 64
    for number in range(200):
        used.leave(NAME, {"binary": [str(number)]})
    assert len(os.listdir(lists())) < 100
    with used.taken(NAME) as found:
        assert {place for _layer, place in found} == {*map(str, range(200))}


def test_damaged():
    """A line of another form is left out, and a list that others can write."""
    used.leave(NAME, {"binary": ["a"]})
    folder = lists()
    for name, text, mode in (("half", "half\na b c\n", 0o600), ("loose", "binary b\n", 0o666)):
        with open(os.path.join(folder, name), "w") as stream:
            stream.write(text)
        os.chmod(os.path.join(folder, name), mode)
    with used.taken(NAME) as found:
        assert found == [("binary", "a")]


def test_pushed():
    """A run that uses what an earlier one used and a push sent is nothing new, and waits for the next push."""
    assert used.leave(NAME, {"binary": ["a"]})
    assert used.waits(NAME)
    with used.taken(NAME):
        pass
    assert not used.waits(NAME)
    assert not used.leave(NAME, {"binary": ["a"]})
    assert used.waits(NAME)
    assert used.leave(NAME, {"binary": ["b"]})
