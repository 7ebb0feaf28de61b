"""kcl.cache.run_memo: what a run leaves for the next one like it."""

import os

from kcl.base import settings
from kcl.cache import run_memo
from kcl.cache.key import Key
from kcl.cache.run_memo import RunMemo

KEY = Key([("driver", "a.py")])


def paths():
    """List the files that runs have left."""
    folder = os.path.join(settings.folder("kcl"), "shapes")
    return sorted(
        os.path.join(place, name) for place, _folders, names in os.walk(folder) for name in names
    )


def test_next_run():
    """What was left is read by a run with the same key, and by no other; a question leaves no trace."""
    assert RunMemo(KEY).read() == {}
    assert paths() == []
    RunMemo(KEY).write({"order": ["a", "b"]})
    assert RunMemo(KEY).read() == {"order": ["a", "b"]}
    assert RunMemo(Key([("driver", "b.py")])).read() == {}


def test_origin():
    """A memo that came from a remote still says so after a run has written it anew."""
    RunMemo(KEY).write({"signers": ["0123"], "a": 1})
    RunMemo(KEY).write({"a": 2})
    assert RunMemo(KEY).read() == {"signers": ["0123"], "a": 2}


def test_what_cannot_be_read_counts_as_nothing_and_is_written_anew():
    memo = RunMemo(KEY)
    memo.write({"a": 1})
    (path,) = paths()
    with open(path, "r+b") as stream:
        stream.truncate(20)
    assert memo.read() == {}
    memo.write({"a": 2})
    assert memo.read() == {"a": 2}


def test_those_that_were_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(run_memo, "KEPT", 3)
    for number in range(6):
        RunMemo(Key([("driver", str(number))])).write({"number": number})
        for path in paths():
            os.utime(path, ns=(0, os.stat(path).st_mtime_ns - 10**9))
    left = [RunMemo(Key([("driver", str(number))])).read().get("number") for number in range(6)]
    assert left == [None, None, None, 3, 4, 5]
