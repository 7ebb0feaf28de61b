"""The driver that runs here: its name, the names of its packs, and what the settings say of its remote."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
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


@pytest.mark.usefixtures("main")
class TestName:
    @pytest.mark.parametrize(
        ("word", "name"),
        [
            ("/home/me/app/run.py", "app/run.py"),
            ("run.py", "here/run.py"),
            ("../x/run.py", "x/run.py"),
        ],
    )
    def test_script(self, word, name, monkeypatch, tmp_path):
        """A script has the name of its folder and its own, wherever that folder lies."""
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        monkeypatch.setattr(sys, "argv", [word])
        assert driver.name() == name

    @pytest.mark.parametrize("arguments", [["-c"], [""], [], ["-"], None])
    def test_text(self, arguments, monkeypatch, tmp_path):
        """A program without a file has the name of the folder that it runs in."""
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        monkeypatch.setattr(sys, "argv", arguments)
        assert driver.name() == "here/python"

    def test_package(self, main):
        """`python -m package` has the name of the package."""
        for name in ("some.package", "some.package.__main__"):
            main.__spec__ = ModuleSpec(name, None)
            assert driver.name() == "some.package"

    def test_chosen(self, main, tmp_path):
        """The settings file may give every driver one name."""
        main.__spec__ = ModuleSpec("package", None)
        remotes.configure(tmp_path / "config", remote_name="ours")
        assert driver.name() == "ours"


class TestPackName:
    def test_parts(self, monkeypatch):
        """Driver, signer, Python and kcl are in the name; a directory of this machine is not."""
        names = {
            driver.pack_name("app/run.py", KEY),
            driver.pack_name("app/run.py", None),
            driver.pack_name("x", KEY),
        }
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
