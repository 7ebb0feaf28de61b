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


class TestName:
    def test_pyproject(self, folder):
        """The nearest pyproject.toml names the project, by `remote_name` of kcl's table first."""
        (folder.parent / "pyproject.toml").write_text("[project]\nname = 'far'\n")
        assert project.name() == "far"
        (folder / "pyproject.toml").write_text("[project]\nname = 'near'\n")
        assert project.name() == "near"
        (folder / "pyproject.toml").write_text("[tool.kcl]\nremote_name = 'ours'\n")
        assert project.name() == "ours"

    @pytest.mark.parametrize("text", ["", "[project]\n", "tool = 1\n", "[[", "\xff"])
    def test_pyproject_without_a_name(self, text, folder):
        """A pyproject.toml that names nothing, or is damaged, is passed by."""
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
    def test_origin(self, address, folder):
        """Without one, git's origin names the project: by its path, without user and host."""
        (folder.parent / ".git").mkdir()
        (folder.parent / ".git" / "config").write_text(
            f'[core]\n\tbare = false\n[remote "origin"]\n\tfetch = +x\n\turl = {address}\n'
        )
        assert project.name() == "team/app"

    @pytest.mark.usefixtures("folder")
    def test_folder(self):
        """Without both, the folder of the program names it, wherever the working directory lies."""
        assert (project.name(), project.written()) == ("here", "")

    @pytest.mark.parametrize("tool", [pytest.__file__, kcl.__file__, os.__file__, "/no/such/file"])
    def test_tool(self, tool, main, folder, monkeypatch):
        """A program in an environment, of Python's library or without a file counts by the working directory."""
        main.__file__ = tool
        (folder / "pyproject.toml").write_text("[project]\nname = 'near'\n")
        monkeypatch.chdir(folder)
        process.reset()
        assert project.name() == "near"

    @pytest.mark.parametrize("arguments", [["-c"], [""], [], ["-"], None])
    def test_text(self, arguments, main, folder, monkeypatch):
        """A text or a worker counts by the working directory, too."""
        del main.__file__
        monkeypatch.chdir(folder)
        process.reset()
        monkeypatch.setattr(sys, "argv", arguments)
        assert project.name() == "here"

    @pytest.mark.usefixtures("folder")
    def test_chosen(self, tmp_path, monkeypatch):
        """The settings file may name it, and a variable."""
        remotes.configure(tmp_path / "config", remote_name="ours")
        assert project.name() == "ours"
        monkeypatch.setenv("KCL_REMOTE_NAME", "mine")
        assert project.name() == "mine"

    def test_user_base(self, main, folder, tmp_path, monkeypatch):
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
