"""The seal of a pack: who signed it, for which name, and what is refused."""

import base64
import os
import pathlib
import sys

import pytest
import remotes

import kcl
from kcl.errors import CacheFault, DamagedEntry
from kcl.remote import seal
from kcl.remote.seal import UNSIGNED, PublicKey, key_of, new, path_of, signing, trusted, unseal
from kcl.remote.stores import RemoteFault

NAME = "0" * 64 + "/key"
BUNDLE = b"a bundle\nof two lines"
KEY = PublicKey("team", bytes(32))
ADDRESS = "redis://user:word@host/0"


@pytest.fixture
def key():
    """A new key, the only one here: its public half, and its secret half."""
    remotes.demand("cryptography")
    new("team")
    return signing()


class TestPack:
    def test_round_trip(self, key):
        public, private = key
        assert unseal(NAME, seal.seal(NAME, private, BUNDLE), public)[1] == BUNDLE
        assert unseal(NAME, seal.seal(NAME, None, BUNDLE), UNSIGNED)[1] == BUNDLE

    def test_every_flip_and_cut(self, key):
        public, private = key
        blob = seal.seal(NAME, private, BUNDLE)
        bad = [*(blob[:end] for end in range(len(blob))), blob + b"\0", b"\0" + blob]
        for place in range(len(blob)):
            changed = bytearray(blob)
            changed[place] ^= 1 << place % 8
            bad.append(bytes(changed))
        for found in bad:
            with pytest.raises(DamagedEntry):
                unseal(NAME, found, public)

    def test_another_name(self, key):
        """A pack that was signed for another name, by a stranger or by nobody is refused; the signer is named."""
        public, private = key
        new("stranger")
        stranger = signing_as("stranger")[1]
        for name, signer in (("1" * 64 + "/key", private), (NAME, None), (NAME, stranger)):
            with pytest.raises(DamagedEntry, match="team"):
                unseal(NAME, seal.seal(name, signer, BUNDLE), public)

    @pytest.mark.parametrize(
        ("rest", "moment", "bundle"),
        [(b"7 app\nx", 7.0, b"x"), (b"\xff\n\nx", 0.0, b"\nx"), (b"axpy", 0.0, b"")],
    )
    def test_any_head(self, rest, moment, bundle):
        """Any head can be read; a pack that ends in it has an empty bundle."""
        assert unseal(NAME, b"kclpack3" + bytes(64) + rest, UNSIGNED) == (moment, bundle)


def signing_as(name):
    remotes.configure(pathlib.Path(path_of(name)).parents[2], signing_key=name)
    return signing()


class TestKeys:
    def test_lines(self):
        key = PublicKey("team", bytes(range(32)))
        assert key_of(f" {key.line}\n") == key
        assert len(key.id) == 16

    @pytest.mark.parametrize(
        "line", ["", "team", "team:", "team:AAAA", "team:!", f"a/b:{'A' * 43}=", f":{'A' * 43}="]
    )
    def test_no_key(self, line):
        with pytest.raises(RemoteFault, match="NAME:base64"):
            key_of(line)

    def test_trusted(self, tmp_path, monkeypatch):
        """The settings file has the trusted keys, in their order; no variable of the environment brings one."""
        monkeypatch.setenv("KCL_TRUSTED_KEYS", PublicKey("c", bytes(32)).line)
        keys = [PublicKey("b", bytes(32)), PublicKey("a", bytes(range(32)))]
        assert (trusted(), signing()) == ([], None)
        remotes.configure(tmp_path / "config", trusted_keys=[key.line for key in keys])
        assert trusted() == keys

    def test_secret(self, key):
        """The secret half is this user's alone, and never written over; if others can read it, it signs nothing."""
        path = path_of("team")
        assert os.stat(path).st_mode & 0o777 == 0o600
        with open(path, "rb") as stream:
            assert base64.b64decode(stream.read()) != key[0].public
        with pytest.raises(RemoteFault, match="another name"):
            new("team")
        os.chmod(path_of("team"), 0o640)
        with pytest.raises(RemoteFault, match="chmod 600"):
            signing()

    @pytest.mark.parametrize("name", ["", "../x", ".x", "a b", "x" * 61])
    def test_a_key_is_named_as_a_file_may_be(self, name):
        with pytest.raises(CacheFault):
            path_of(name)

    def test_several(self, key):
        new("other")
        with pytest.raises(RemoteFault, match="signing_key"):
            signing()
        assert signing_as("team")[0] == key[0]
        with pytest.raises(RemoteFault, match="cannot be read"):
            signing_as("gone")

    def test_no_package(self, monkeypatch):
        monkeypatch.setitem(
            __import__("sys").modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None
        )
        with pytest.raises(RemoteFault, match="pip install"):
            new("team")


def test_parts(monkeypatch):
    """Project, signer, Python and kcl are in the name; a directory of this machine is not."""
    names = {
        seal.pack_name("app/run.py", KEY),
        seal.pack_name("app/run.py", UNSIGNED),
        seal.pack_name("x", KEY),
    }
    monkeypatch.setattr(sys, "version_info", (*sys.version_info[:2], 99))
    names.add(seal.pack_name("app/run.py", KEY))  # a patch release is the same
    assert len(names) == 3
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    names.add(seal.pack_name("app/run.py", KEY))
    monkeypatch.setattr(kcl, "__version__", "99")
    names.add(seal.pack_name("app/run.py", KEY))
    assert len(names) == 5
    assert {len(name.partition("/")[0]) for name in names} == {64}
    assert {name.partition("/")[2] for name in names} == {KEY.id, "unsigned"}


def test_believed(tmp_path):
    """Packs of the trusted keys are asked for in their order, then one that nobody need have signed."""
    with pytest.raises(RemoteFault, match="kcl key trust"):
        seal.believed(ADDRESS)
    other = PublicKey("other", bytes(range(32)))
    lines = [other.line, KEY.line]
    remotes.configure(
        tmp_path / "config", trusted_keys=lines, remote_unsigned=["file:///x", ADDRESS]
    )
    assert seal.believed(ADDRESS) == [other, KEY, UNSIGNED]
    assert seal.believed(ADDRESS + "1") == [other, KEY]
