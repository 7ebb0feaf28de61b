"""kcl key: keys are made, trusted, listed and forgotten."""

import pathlib

import pytest
import remotes
from commands import run
from stored import put

from kcl.base import process
from kcl.cache import layers
from kcl.remote import seal

LINE = seal.PublicKey("team", bytes(range(32))).line
OTHER = seal.PublicKey("other", bytes(32)).line


def trusted():
    """Return the lines of the keys that a new process would trust."""
    process.reset()
    return [key.line for key in seal.trusted()]


def test_new():
    remotes.demand("cryptography")
    done = run("key", "new", "mine")
    assert seal.key_of(done.stdout) == seal.signing()[0]
    assert "kcl key trust" in done.stderr
    assert "another name" in run("key", "new", "mine", code=1).output
    assert "cannot name a key" in run("key", "new", "a/b", code=1).output


class TestTrust:
    def test_lines(self, tmp_path):
        """Trusted keys stand behind those of the settings file, by name; no key, and a second one of a name, is refused."""
        assert "no key is trusted" in run("key", "list").output
        third = seal.PublicKey("a", bytes(range(1, 33))).line
        for line in (LINE, third, LINE):
            run("key", "trust", line)
        assert trusted() == [third, LINE]
        remotes.configure(tmp_path / "config", trusted_keys=[OTHER])
        assert trusted() == [OTHER, third, LINE]
        assert "team" in run("key", "list").output
        process.reset()
        assert "NAME:base64" in run("key", "trust", "team", code=1).output
        impostor = OTHER.replace("other", "team")
        assert "kcl key forget team" in run("key", "trust", impostor, code=1).output
        assert trusted() == [OTHER, third, LINE]

    def test_of_others(self):
        run("key", "trust", LINE)
        path = pathlib.Path(seal.path_of("team", seal.TRUSTED))
        path.chmod(0o666)
        with pytest.raises(PermissionError, match="others can write"):
            trusted()
        path.chmod(0o600)
        path.parent.chmod(0o777)
        assert "others can write" in run("key", "list", code=1).output


class TestForget:
    @pytest.fixture
    def row(self):
        run("key", "trust", LINE)
        process.reset()
        signed = {"signers": [seal.key_of(LINE).id]}
        return [put("axpy", layer="generator", **signed), put("lap", layer="generator")]

    @pytest.mark.parametrize(("option", "answer", "left"), [("--purge", "", 1), ("--keep", "", 2)])
    def test_forget(self, row, option, answer, left):
        """The key is trusted no longer; what it brought goes if the user wishes, and what was made here stays."""
        assert " 1" in run("key", "list").output
        assert answer or "not trusted any more" in run("key", "forget", "team", option).output
        assert trusted() == []
        assert sum(layers.generator().read(place) is not None for place in row) == left

    def test_without_a_terminal(self, row):
        """A script is not asked: what the key brought stays, is listed under its name, and goes by its id."""
        signer = seal.key_of(LINE).id
        assert f"kcl purge --signed-by {signer}" in run("key", "forget", "team").output
        assert trusted() == []
        assert "team (forgotten)" in run("key", "list").output
        dry = run("purge", "--signed-by", signer, "--dry-run").output
        assert "generator" in dry
        assert "1 row of " in dry
        assert "nothing is removed: this is a dry run" in dry
        assert "B are removed" in run("purge", "--signed-by", signer, "--yes").output
        assert sum(layers.generator().read(place) is not None for place in row) == 1
        assert "no key is trusted" in run("key", "list").output
        assert "kcl key list" in run("purge", "--signed-by", signer, "--yes", code=1).output
        assert "stands alone" in run("purge", "kcl", "--signed-by", signer, code=2).output

    def test_of_the_settings(self, tmp_path):
        remotes.configure(tmp_path / "config", trusted_keys=[OTHER])
        assert "remove it there" in run("key", "forget", "other", code=1).output
        assert "kcl key list" in run("key", "forget", "team", code=1).output
