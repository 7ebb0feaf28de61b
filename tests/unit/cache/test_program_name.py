"""kcl.cache.program_name: the name of the program, and what tells it from others."""

import os
import sys
import types

import pytest

from kcl.cache.program_name import driver_name, program_path

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
    monkeypatch.setitem(sys.modules, "__main__", module)
    assert program_path() == path
    assert driver_name() == name


def test_notebook_of_jupyter(monkeypatch):
    """Jupyter says which notebook a process runs."""
    monkeypatch.setattr("sys.argv", CONNECTION)
    monkeypatch.setenv("JPY_SESSION_NAME", "/a/waves.ipynb")
    assert (program_path(), driver_name()) == ("/a/waves.ipynb", "waves.ipynb")


def test_texts(child):
    """Two texts of `python -c` are two programs, both named "-c"."""
    said = "from kcl.cache.program_name import driver_name, program_path\nprint(driver_name(), program_path())"
    one, again, other = (
        child.python("-c", text).stdout.split(" ", 1) for text in (said, said, f"{said}\n")
    )
    assert one[0] == other[0] == "-c"
    assert one == again != other


def test_worker(monkeypatch):
    """A worker of pytest-xdist has the name of pytest; a text that a test runs has not."""
    monkeypatch.setattr("sys.argv", ["-c"])
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", "5f")
    monkeypatch.delitem(sys.modules, "execnet", raising=False)
    assert driver_name() == "-c"
    monkeypatch.setitem(sys.modules, "execnet", types)
    assert (program_path(), driver_name()) == ("pytest 5f", "pytest")
