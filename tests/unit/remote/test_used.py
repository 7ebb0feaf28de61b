"""What runs used, in lists that wait for a push."""

import contextlib
import os
import pathlib
import time

from kcl.base import settings
from kcl.remote import used

NAME = "app"


def leave(*addresses):
    used.leave(NAME, [("binary", address) for address in addresses])


def taken():
    with used.take(NAME) as places:
        return [address for _layer, address in places]


def lists():
    (folder,) = filter(pathlib.Path.is_dir, pathlib.Path(settings.folder("kcl"), "packs").glob("*"))
    return folder


def test_taken():
    """A push takes up what runs used, the latest last; what an error ends is taken up again."""
    used.leave(NAME, [("binary", "a/b"), ("generator", "c"), ("generator", "d")])
    time.sleep(0.02)  # a clock of files may be coarse
    used.leave(NAME, [("binary", "e"), ("binary", "a/b")])
    used.leave("other", [("binary", "x")])
    assert used.last() == "other"
    places = [("generator", "c"), ("generator", "d"), ("binary", "e"), ("binary", "a/b")]
    with contextlib.suppress(ZeroDivisionError), used.take(NAME) as found:
        assert found == places
        time.sleep(0.02)
        leave("late")  # by a run that ends now
        raise ZeroDivisionError
    assert used.waits(NAME)
    with used.take(NAME) as found:
        assert found == [*places, ("binary", "late")]
        leave("later")
    assert taken() == ["later"]
    assert not used.waits(NAME)


def test_again():
    """A run that uses what an earlier one used leaves no further list, and is the later one."""
    leave("a")
    leave("b")
    for file in lists().iterdir():
        os.utime(file, (1, 1))
    leave("a")
    assert len([*lists().iterdir()]) == 2
    assert taken() == ["b", "a"]


def test_many():
    """The lists of many runs are joined, also if the last run used all that they have."""
    for number in range(64):
        leave(str(number))
    leave(*map(str, range(64)))
    assert taken() == [*map(str, range(64))]
    for number in range(200):
        leave(str(number))
    assert len([*lists().iterdir()]) < 100
    assert {*taken()} == {*map(str, range(200))}


def test_damaged():
    """A list of another form is left out, and one that others can write."""
    leave("a")
    folder = lists()
    for name, text, mode in (
        ("1" * 64, "[1]", 0o600),
        ("2" * 64, '[["binary", "b"]', 0o600),
        ("3" * 64, '[["binary", "b"]]', 0o666),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    assert taken() == ["a"]
