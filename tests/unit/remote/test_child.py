"""The child that talks to a remote: how it is started, and that it is bounded."""

import signal
import subprocess
import sys

import pytest
import remotes
from proxy import Proxy

from kcl.remote import child, outcomes


@pytest.fixture
def address(tmp_path):
    found = remotes.directory(tmp_path / "remote")
    remotes.configure(tmp_path / "config", remote_unsigned=[found])
    return found


def test_note(address, monkeypatch):
    """What a child is asked is done, and noted; a search path of any length is handed on."""
    monkeypatch.setattr("sys.path", [*sys.path, "/" + "x" * 200_000])
    for work in ("pull", "push"):
        found = child.run(work, "app", address, 60.0)
        assert not found.fault
        assert outcomes.read(outcomes.note_name(work, "app", address)) == found


def test_attempt_leaves_nothing(address, tmp_path):
    assert child.run("pull", "app", address, 60.0, load=False)[:3] == ("", 0, 0)
    assert not (tmp_path / "cache").exists()


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

    def note(event, given):
        if event == "subprocess.Popen":
            started.append(str(given))

    sys.addaudithook(note)
    assert child.run("pull", "app", address, 60.0, load=False).fault
    assert started
    assert not any("secretword" in one for one in started)
