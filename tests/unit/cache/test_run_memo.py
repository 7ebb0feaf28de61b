"""kcl.cache.run_memo: what a run leaves for the next one like it."""

import os
import types

import pytest

from kcl import option
from kcl.cache import run_memo
from kcl.cache.key import Key
from kcl.cache.run_memo import RunMemo, driver_name, program_path

KEY = Key([("driver", "a.py")])


def paths():
    """List the files that runs have left."""
    folder = os.path.join(option.folder("kcl"), "notes")
    return sorted(
        os.path.join(place, name) for place, _folders, names in os.walk(folder) for name in names
    )


def test_next_run():
    """What was left is read by a run with the same key, and by no other; a question leaves no trace."""
    assert RunMemo("notes", KEY).read() == {}
    assert paths() == []
    RunMemo("notes", KEY).write({"order": ["a", "b"]})
    assert RunMemo("notes", KEY).read() == {"order": ["a", "b"]}
    assert RunMemo("notes", Key([("driver", "b.py")])).read() == {}


def test_origin():
    """A memo that came from a remote still says so after a run has written it anew."""
    RunMemo("notes", KEY).write({"signers": ["0123"], "a": 1})
    RunMemo("notes", KEY).write({"a": 2})
    assert RunMemo("notes", KEY).read() == {"signers": ["0123"], "a": 2}


def test_damaged():
    """What cannot be read counts as nothing, and is written anew."""
    memo = RunMemo("notes", KEY)
    memo.write({"a": 1})
    (path,) = paths()
    with open(path, "r+b") as stream:
        stream.truncate(20)
    assert memo.read() == {}
    memo.write({"a": 2})
    assert memo.read() == {"a": 2}


def test_few_are_kept(monkeypatch):
    """Those that were used last are kept."""
    monkeypatch.setattr(run_memo, "KEPT", 3)
    for number in range(6):
        RunMemo("notes", Key([("driver", str(number))])).write({"number": number})
        for path in paths():
            os.utime(path, ns=(0, os.stat(path).st_mtime_ns - 10**9))
    left = [
        RunMemo("notes", Key([("driver", str(number))])).read().get("number") for number in range(6)
    ]
    assert left == [None, None, None, 3, 4, 5]


BY_PYTHON = object()  # a module that `python -m` has found
CONNECTION = ["/lib/ipykernel_launcher.py", "-f", "/run/kernel-1.json"]


@pytest.mark.parametrize(
    ("arguments", "main", "path", "name"),
    [
        (["run.py"], {"__file__": "/a/run.py"}, "/a/run.py", "run.py"),
        (["/lib/pkg/__main__.py"], {"__spec__": BY_PYTHON}, "/lib/pkg/__main__.py", "pkg"),
        (
            ["app.pyz"],
            {"__spec__": BY_PYTHON, "__file__": "app.pyz/__main__.py"},
            "/a/app.pyz",
            "app.pyz",
        ),
        (["/a/run.py"], {"__spec__": BY_PYTHON, "__file__": "/lib/loky.py"}, "/a/run.py", "run.py"),
        (["/tmp/tmp1.scr.py"], {"__file__": "/a/plot.py"}, "/a/plot.py", "plot.py"),
        (CONNECTION, {"__vsc_ipynb_file__": "/a/b.ipynb"}, "/a/b.ipynb", "b.ipynb"),
        (CONNECTION, {}, f"notebook {CONNECTION}", "notebook"),
        ([""], {}, "", ""),
        ([], {}, "", ""),
        (None, {}, "", ""),
    ],
)
def test_program(monkeypatch, arguments, main, path, name):
    """A program is told from others by its path; its name is that of the file, or of the package."""
    monkeypatch.delenv("PYTEST_XDIST_TESTRUNUID", raising=False)  # of a worker that runs this test
    monkeypatch.setattr(os, "getcwd", lambda: "/a")
    monkeypatch.setattr("sys.argv", arguments)
    module = types.ModuleType("__main__")
    vars(module).update(main)
    monkeypatch.setitem(run_memo.sys.modules, "__main__", module)
    assert program_path() == path
    assert driver_name() == name


def test_notebook_of_jupyter(monkeypatch):
    """Jupyter says which notebook a process runs."""
    monkeypatch.setattr("sys.argv", CONNECTION)
    monkeypatch.setenv("JPY_SESSION_NAME", "/a/waves.ipynb")
    assert (program_path(), driver_name()) == ("/a/waves.ipynb", "waves.ipynb")


def test_texts(child):
    """Two texts of `python -c` are two programs, both named "-c"."""
    said = "from kcl.cache.run_memo import driver_name, program_path\nprint(driver_name(), program_path())"
    one, again, other = (
        child.python("-c", text).stdout.split(" ", 1) for text in (said, said, f"{said}\n")
    )
    assert one[0] == other[0] == "-c"
    assert one == again != other


def test_worker(monkeypatch):
    """A worker of pytest-xdist has the name of pytest; a text that a test runs has not."""
    monkeypatch.setattr("sys.argv", ["-c"])
    monkeypatch.setitem(run_memo.sys.modules, "__main__", types.ModuleType("__main__"))
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", "5f")
    monkeypatch.delitem(run_memo.sys.modules, "execnet", raising=False)
    assert driver_name() == "-c"
    monkeypatch.setitem(run_memo.sys.modules, "execnet", types)
    assert (program_path(), driver_name()) == ("pytest 5f", "pytest")
