"""The child that talks to a remote: how it is started, and that it is bounded."""

import signal
import subprocess
import sys
import time

import pytest
import remotes
from proxy import Proxy

from kcl.remote import child, outcomes


@pytest.fixture
def address(tmp_path):
    """A remote of plain files that needs no signature."""
    found = remotes.directory(tmp_path / "remote")
    remotes.configure(tmp_path / "config", remote_unsigned=[found])
    return found


def test_note(address):
    """What a child is asked is done, and noted."""
    for work in ("pull", "push"):
        found = child.run(work, "app", address, 60.0)
        assert outcomes.read(outcomes.note_name(work, "app", address)) == found
        assert (found.fault, found.bytes) == ("", 0)


def test_long(address, monkeypatch):
    """A search path of any length is handed on."""
    monkeypatch.setattr("sys.path", [*sys.path, "/" + "x" * 200_000])
    assert not child.run("pull", "app", address, 60.0).fault


def test_attempt(address, tmp_path):
    """A try leaves no note, and no folder."""
    assert child.run("pull", "app", address, 60.0, load=False)[:3] == ("", 0, 0)
    assert not (tmp_path / "cache").exists()


def test_late(address):
    """A wait ends in time, and the child goes on."""
    assert child.run("pull", "app", address, 0.0) is None
    end = time.monotonic() + 60.0
    while outcomes.read(outcomes.note_name("pull", "app", address)) is None:
        assert time.monotonic() < end
        time.sleep(0.02)


BOUNDED = """
import resource, sys
from kcl.remote import child, packs

def pull(*given):
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == 2 << 30
    return unbounded(*given)

unbounded, packs.pull, child.SECONDS["pull"] = packs.pull, pull, 2
child.main("pull", "app", sys.argv[1], sys.argv[2], {})
"""


def test_ends_by_itself(tmp_path):
    """A child is bounded in time and in address space, whatever the server does."""
    remotes.demand("redis")
    with Proxy(remotes.server("redis", None).port, "swallowed") as bad:
        address = f"redis://127.0.0.1:{bad.port}/0"
        remotes.configure(tmp_path / "config", remote_unsigned=[address])
        done = subprocess.run(
            [sys.executable, "-c", BOUNDED, address, str(tmp_path / "cache")],
            stderr=subprocess.PIPE,
        )
    assert done.returncode == -signal.SIGALRM, done.stderr


def test_secrets(monkeypatch):
    """A password is neither an argument of a process, nor in its environment."""
    address, started = f"redis://user:secretword@127.0.0.1:{remotes.free_port()}/0", []
    monkeypatch.setenv("KCL_REMOTE", address)
    sys.addaudithook(
        lambda event, given: started.append(str(given)) if event == "subprocess.Popen" else None
    )
    assert child.run("pull", "app", address, 60.0, load=False).fault
    assert started
    assert not any("secretword" in one for one in started)
