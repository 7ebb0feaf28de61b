"""kcl pull and kcl push: packs by hand."""

import pathlib

import pytest
import remotes
from commands import run
from remotes import ROW

from kcl.remote import seal, used

pytestmark = pytest.mark.faults
NAME = "app/run.py"
ENTRY = [("generator", ROW.key.digest)]


@pytest.fixture
def address(tmp_path, monkeypatch):
    """A remote of plain files that needs no signature, and a run whose entry waits for a push."""
    found = remotes.with_row(tmp_path, monkeypatch)
    used.leave(NAME, ENTRY)
    return found


def test_there_and_back(address):
    """The driver that missed last is pushed and pulled; the outcome is a line."""
    assert f"{address}, {NAME}: pushed: 1 entry, " in run("push").output
    assert ": no run has used an entry here since the last push (" in run("push").output
    used.leave(NAME, ENTRY)
    assert ": all of 1 entry are there (" in run("push").output
    assert f"{address}, {NAME}: pulled: 1 entry, " in run("pull").output


@pytest.mark.usefixtures("address")
def test_bundle(tmp_path):
    named = ("--name", "other")
    assert "other: nothing is there" in run("pull", *named, code=1).output
    run("save", str(tmp_path / "x.kclb"))
    assert "other: pushed: 1 entry, " in run("push", *named, str(tmp_path / "x.kclb")).output
    assert "other: pulled" in run("pull", *named).output


def test_no_remote():
    for words in (["pull", "--name", "x"], ["pull"], ["push"]):
        assert "set KCL_REMOTE" in run(*words, code=1).output


def test_project(address, monkeypatch, tmp_path):
    """Without a name it is that of the last run, else that of the working directory's project."""
    (tmp_path / "app").mkdir()
    monkeypatch.chdir(tmp_path / "app")
    monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path / "new"))
    said = run("push").output
    assert f"{address}, app: no run has used an entry" in said
    assert "app is the name of the folder" in said
    (tmp_path / "app" / "pyproject.toml").write_text("[project]\nname = 'named'\n")
    assert f"{address}, named: no run has used an entry" in run("push").output
    used.leave("named", ENTRY)
    used.leave("other", ENTRY)
    assert f"{address}, named: " in run("push").output  # where this is, not what ran last
    assert f"{address}, other: " in run("push").output


@pytest.mark.usefixtures("address")
def test_key(tmp_path):
    """The secret half of a key may come by a pipe: this machine need not have the key."""
    remotes.demand("cryptography")
    line = run("key", "new", "ci").stdout
    path = pathlib.Path(seal.path_of("ci"))
    secret = path.read_text()
    path.unlink()
    remotes.configure(tmp_path / "config", trusted_keys=[line.strip()])
    assert "kcl key new" in run("push", code=1).output
    assert "pushed: 1 entry" in run("push", "--key", "-", text=secret).output
    assert "pulled: 1 entry" in run("pull").output
    assert "--key is empty" in run("push", "--key", "-", text="\n", code=2).output
    said = run("push", "--key", "-", text="no key", code=1).output
    assert "the key from --key cannot be read" in said


@pytest.mark.usefixtures("address")
def test_damaged(tmp_path):
    """A pull names the command that removes a damaged pack; a push starts it over, and says so."""
    name = seal.pack_name(NAME, seal.UNSIGNED)
    (tmp_path / "remote" / name).parent.mkdir()
    (tmp_path / "remote" / name).write_bytes(b"no pack")
    cure = f"remote rm {name[:12]} --key unsigned"
    assert f"kcl {cure}" in " ".join(run("pull", code=1).output.split())
    said = run("push").output
    assert "pushed: 1 entry" in said
    assert "the own pack was damaged: it starts over" in said
    assert run(*cure.split(), "--yes").output.endswith("1 pack removed\n")


def test_fault(monkeypatch, address, tmp_path):
    remotes.configure(tmp_path / "config")
    assert "kcl key new" in run("push", "--name", NAME, code=1).output
    assert "kcl key trust" in run("pull", "--name", NAME, code=1).output
    monkeypatch.setenv("KCL_REMOTE", address.replace("file", "ftp"))
    assert "redis://" in run("pull", "--name", NAME, code=1).output
