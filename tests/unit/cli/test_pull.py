"""kcl pull and kcl push: packs by hand."""

import pytest
import remotes
from commands import run

from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.remote import driver, notes

pytestmark = pytest.mark.faults
NAME = "app/run.py"


@pytest.fixture
def address(tmp_path, monkeypatch):
    """A remote of plain files that needs no signature, and a run whose entry waits for a push."""
    found = remotes.directory(tmp_path / "remote")
    monkeypatch.setenv("KCL_REMOTE", found)
    remotes.configure(tmp_path / "config", remote_unsigned=[found])
    row = Entry(
        Key([Part("number", "1")]),
        {"front_end": "loopy", "kernel": "axpy"},
        {"source.cl": b"kernel"},
    )
    layers.generator().publish(row.key.digest, row)
    notes.leave(driver.digest(NAME), NAME, {"generator": [row.key.digest]})
    return found


def test_there_and_back(address):
    """The driver that missed last is pushed and pulled; the outcome is a line."""
    assert f"{address}, {NAME}: pushed: 1 entry, " in run("push").output
    assert "nothing new" in run("push").output
    assert f"{address}, {NAME}: pulled: 1 entry, " in run("pull").output


def test_names(address):
    """A driver can be named; where there is no pack the status is 1."""
    assert "other: absent" in run("pull", "--name", "other", code=1).output
    assert address


def test_bundle(address, tmp_path):
    """A bundle is pushed under the name of a driver."""
    run("save", str(tmp_path / "x.kclb"))
    assert (
        "other: pushed: 1 entry, "
        in run("push", "--name", "other", str(tmp_path / "x.kclb")).output
    )
    assert "other: pulled" in run("pull", "--name", "other").output
    assert address


def test_no_remote():
    """Without a remote the command says how to set one."""
    assert "set KCL_REMOTE" in run("pull", "--name", "x", code=1).output


def test_no_driver(monkeypatch):
    """Without a name and a last driver the use is wrong."""
    monkeypatch.setenv("KCL_REMOTE", "file:///x")
    assert "--name" in run("pull", code=2).output


def test_fault(monkeypatch, address, tmp_path):
    """A fault is said with its cure, and the status is 1."""
    remotes.configure(tmp_path / "config")
    assert "kcl key new" in run("push", "--name", NAME, code=1).output
    assert "kcl key trust" in run("pull", "--name", NAME, code=1).output
    monkeypatch.setenv("KCL_REMOTE", address.replace("file", "ftp"))
    assert "redis://" in run("pull", "--name", NAME, code=1).output
