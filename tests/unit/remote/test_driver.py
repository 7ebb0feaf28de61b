"""The driver that runs here: its name, the names of its packs, and what the settings say of its remote."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import pytest
import remotes

import kcl
from kcl.remote import driver
from kcl.remote.seal import PublicKey
from kcl.remote.stores import RemoteFault

KEY = PublicKey("team", bytes(32))
ADDRESS = "redis://user:word@host/0"


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
        assert driver.name() == "far"
        (folder / "pyproject.toml").write_text("[project]\nname = 'near'\n")
        assert driver.name() == "near"
        (folder / "pyproject.toml").write_text("[tool.kcl]\nremote_name = 'ours'\n")
        assert driver.name() == "ours"

    @pytest.mark.parametrize("text", ["", "[project]\n", "tool = 1\n", "[[", "\xff"])
    def test_pyproject_without_a_name(self, text, folder):
        """A pyproject.toml that names nothing, or is damaged, is passed by."""
        (folder / "pyproject.toml").write_text(text, "latin-1")
        assert driver.name() == "here"

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
        assert driver.name() == "team/app"

    def test_folder(self, folder):
        """Without both, the folder of the program names it, wherever the working directory lies."""
        assert driver.project() == ("here", f"the folder {folder}")

    @pytest.mark.parametrize("tool", [pytest.__file__, kcl.__file__, os.__file__, "/no/such/file"])
    def test_tool(self, tool, main, folder, monkeypatch):
        """A program in an environment, of Python's library or without a file counts by the working directory."""
        main.__file__ = tool
        (folder / "pyproject.toml").write_text("[project]\nname = 'near'\n")
        monkeypatch.chdir(folder)
        assert driver.name() == "near"

    @pytest.mark.parametrize("arguments", [["-c"], [""], [], ["-"], None])
    def test_text(self, arguments, main, folder, monkeypatch):
        """A text or a worker counts by the working directory, too."""
        del main.__file__
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", arguments)
        assert driver.name() == "here"

    @pytest.mark.usefixtures("folder")
    def test_chosen(self, tmp_path, monkeypatch):
        """The settings file may name it, and a variable."""
        remotes.configure(tmp_path / "config", remote_name="ours")
        assert driver.name() == "ours"
        monkeypatch.setenv("KCL_REMOTE_NAME", "mine")
        assert driver.name() == "mine"


class TestPackName:
    def test_parts(self, monkeypatch):
        """Driver, signer, Python and kcl are in the name; a directory of this machine is not."""
        names = {
            driver.pack_name("app/run.py", KEY),
            driver.pack_name("app/run.py", None),
            driver.pack_name("x", KEY),
        }
        monkeypatch.setattr(sys, "version_info", (*sys.version_info[:2], 99))
        names.add(driver.pack_name("app/run.py", KEY))  # a patch release is the same
        assert len(names) == 3
        monkeypatch.setattr(sys, "version_info", (3, 99, 0))
        names.add(driver.pack_name("app/run.py", KEY))
        monkeypatch.setattr(kcl, "__version__", "99")
        names.add(driver.pack_name("app/run.py", KEY))
        assert len(names) == 5
        assert {len(name.partition("/")[0]) for name in names} == {64}
        assert {name.partition("/")[2] for name in names} == {KEY.id, "unsigned"}


class TestBelief:
    def test_nobody(self):
        """Without a trusted key no pack is believed, and the fault names the cures."""
        with pytest.raises(RemoteFault, match="kcl key trust"):
            driver.believed(ADDRESS)

    def test_keys_in_order(self, tmp_path):
        """Packs of the trusted keys are asked for in their order, then one that nobody signed."""
        other = PublicKey("other", bytes(range(32)))
        lines = [other.line, KEY.line]
        remotes.configure(
            tmp_path / "config", trusted_keys=lines, remote_unsigned=["file:///x", ADDRESS]
        )
        assert driver.believed(ADDRESS) == [other, KEY, None]
        assert driver.believed(ADDRESS + "1") == [other, KEY]

    def test_terms(self, tmp_path):
        """Other trusted keys and another remote are other terms."""
        found = {driver.terms(ADDRESS), driver.terms("file:///x")}
        remotes.configure(tmp_path / "config", trusted_keys=[KEY.line])
        found.add(driver.terms(ADDRESS))
        remotes.configure(tmp_path / "config", remote_unsigned=[ADDRESS])
        assert len(found | {driver.terms(ADDRESS)}) == 4
