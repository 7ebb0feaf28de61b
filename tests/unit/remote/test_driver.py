"""The names of the packs of a project, and what the settings say of its remote."""

from __future__ import annotations

import sys

import pytest
import remotes

import kcl
from kcl.remote import driver
from kcl.remote.seal import UNSIGNED, PublicKey
from kcl.remote.stores import RemoteFault

KEY = PublicKey("team", bytes(32))
ADDRESS = "redis://user:word@host/0"


class TestPackName:
    def test_parts(self, monkeypatch):
        """Project, signer, Python and kcl are in the name; a directory of this machine is not."""
        names = {
            driver.pack_name("app/run.py", KEY),
            driver.pack_name("app/run.py", UNSIGNED),
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
            driver.trusted_keys(ADDRESS)

    def test_keys_in_order(self, tmp_path):
        """Packs of the trusted keys are asked for in their order, then one that nobody need have signed."""
        other = PublicKey("other", bytes(range(32)))
        lines = [other.line, KEY.line]
        remotes.configure(
            tmp_path / "config", trusted_keys=lines, remote_unsigned=["file:///x", ADDRESS]
        )
        assert driver.trusted_keys(ADDRESS) == [other, KEY, UNSIGNED]
        assert driver.trusted_keys(ADDRESS + "1") == [other, KEY]
