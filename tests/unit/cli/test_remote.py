"""kcl remote: packs are listed and removed."""

import pytest
import remotes
from commands import run
from remotes import ROW

from kcl.remote import seal, stores, used

pytestmark = pytest.mark.faults


@pytest.fixture
def address(tmp_path, monkeypatch):
    found = remotes.with_row(tmp_path, monkeypatch)
    for name in ("app", "other one"):
        used.leave(name, [("generator", ROW.key.digest)])
        run("push", "--name", name)
    return found


def test_list(address):
    first, second = run("remote", "ls").output.splitlines()[1:]
    assert first.split()[:2] == ["app", "unsigned"]
    assert second.split()[:3] == ["other", "one", "unsigned"]
    assert second.endswith(seal.project_digest("other one")[:12])
    assert address


def test_remove(address):
    assert "no pack of app" in run("remote", "rm", "app", "--key", "team", code=1).stderr
    run("remote", "rm", "app", text="n\n", code=1)
    assert "1 pack removed" in run("remote", "rm", "app", text="y\n").output
    assert "no pack of app" in run("remote", "rm", "app", code=1).stderr
    run("remote", "rm", seal.project_digest("other one")[:12], "--yes")
    assert run("remote", "ls").output == "no pack is there\n"
    assert address


def test_lies(address):
    """What a pack says of itself is shown without control characters, and nothing of it fails a listing."""
    store, name = stores.store_of(address, 1.0), seal.pack_name("app", seal.UNSIGNED)
    for blob in (b"", b"\xff" * 1000, seal.seal(name, None, b"", "a\x1b[31m\u202eb\nc")):
        store.put(name, blob)
        output = run("remote", "ls").output
        assert "\x1b" not in output
        assert "\u202e" not in output
    assert "a[31mb c" in output


def test_fault(monkeypatch):
    assert "no remote is set" in run("remote", "ls", code=1).output
    monkeypatch.setenv("KCL_REMOTE", f"redis://me:hidden@127.0.0.1:{remotes.free_port()}/0")
    said = run("remote", "ls", code=1).output
    assert "redis://127.0.0.1" in said
    assert "hidden" not in said
