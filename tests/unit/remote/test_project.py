"""The project that runs here: its name, however a program of it is started."""

import os
import sys
from types import ModuleType

import pytest
import remotes

import kcl
from kcl.base import process
from kcl.remote import project


@pytest.fixture
def main(monkeypatch):
    """A module `__main__` of a script."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


@pytest.fixture
def folder(main, tmp_path, monkeypatch):
    """A folder without a project above it, where a script `run.py` runs."""
    place = tmp_path / "outer" / "here"
    place.mkdir(parents=True)
    (place / "run.py").write_text("")
    main.__file__ = str(place / "run.py")
    monkeypatch.chdir(tmp_path)
    return place


def test_pyproject(folder, tmp_path, monkeypatch):
    """The nearest pyproject.toml names the project, by `remote_name` of kcl's table first; the user's settings win."""
    assert (project.name(), project.written()) == ("here", "")
    (folder.parent / "pyproject.toml").write_text("[project]\nname = 'far'\n")
    assert project.name() == "far"
    (folder / "pyproject.toml").write_text("[project]\nname = 'near'\n")
    assert project.name() == "near"
    (folder / "pyproject.toml").write_text("[tool.kcl]\nremote_name = 'ours'\n")
    assert project.name() == "ours"
    remotes.configure(tmp_path / "config", remote_name="chosen")
    assert project.name() == "chosen"
    monkeypatch.setenv("KCL_REMOTE_NAME", "mine")
    assert project.name() == "mine"


@pytest.mark.parametrize("text", ["", "[project]\n", "tool = 1\n", "[[", "\xff"])
def test_pyproject_without_a_name(text, folder):
    (folder / "pyproject.toml").write_text(text, "latin-1")
    assert project.name() == "here"


@pytest.mark.parametrize(
    "address",
    [
        "git@host:team/app.git",
        "https://user:word@host/group/team/app",
        "ssh://git@host:22/team/app.git/",
        "/srv/team/app.git",
    ],
)
def test_origin(address, folder):
    """Without one, git's origin names the project: by its path, without user and host."""
    (folder.parent / ".git").mkdir()
    (folder.parent / ".git" / "config").write_text(
        f'[core]\n\tbare = false\n[remote "origin"]\n\tfetch = +x\n\turl = {address}\n'
    )
    assert project.name() == "team/app"


@pytest.mark.parametrize("tool", [pytest.__file__, kcl.__file__, os.__file__, "/no/such/file"])
def test_tool(tool, main, folder, monkeypatch):
    """A program in an environment, of Python's library or without a file counts by the working directory."""
    main.__file__ = tool
    (folder / "pyproject.toml").write_text("[project]\nname = 'near'\n")
    monkeypatch.chdir(folder)
    process.reset()
    assert project.name() == "near"


@pytest.mark.parametrize("arguments", [["-c"], [""], [], ["-"], None])
def test_text(arguments, main, folder, monkeypatch):
    del main.__file__
    monkeypatch.chdir(folder)
    process.reset()
    monkeypatch.setattr(sys, "argv", arguments)
    assert project.name() == "here"


def test_user_base(main, folder, tmp_path, monkeypatch):
    """Programs below the user's own base are tools, too."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    for place in (".local/bin/pytest", ".local/lib/python3/site-packages/pytest/__main__.py"):
        file = tmp_path / "home" / place
        file.parent.mkdir(parents=True)
        file.write_text("")
        main.__file__ = str(file)
        process.reset()
        assert project.name() == "here"
