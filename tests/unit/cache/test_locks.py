"""kcl.cache.locks: lock files, and what the system knows of their holders. `test_lead` has the waits for them."""

import os

from kcl.cache import locks


def test_state():
    """A process that the system does not know, and what is no process, have no state."""
    assert locks.state_of(str(os.getpid())) in ("R", "S", "D")
    assert {locks.state_of(number) for number in ("4194305", "", "none")} == {""}


def test_replaced(tmp_path):
    """A lock on a file that was removed, or replaced, is not the one that others will find."""
    path = str(tmp_path / "lock")
    descriptor = locks.open_lock(path)
    assert locks.try_lock(descriptor)
    assert locks.is_at(path, descriptor)
    os.unlink(path)
    assert not locks.is_at(path, descriptor)
    other = locks.open_lock(path)
    assert not locks.is_at(path, descriptor)
    for opened in (descriptor, other):
        locks.close_lock(opened)


def test_held(tmp_path):
    """A lock file says its last holder alone while it is held, is not waited for at once, and goes with its lock."""
    path = tmp_path / "lock"
    path.write_text("1234567 a host with a long name, and more")
    held = locks.hold(str(path), False, lambda: None)
    assert path.read_text() == f"{os.getpid()} {os.uname().nodename}"
    assert locks.hold(str(path), True, lambda: None) == -1
    locks.remove(str(path), held)
    assert not path.exists()


def test_removed_meanwhile(tmp_path):
    """Who waited for a lock that its holder has removed has none: the value may be there now."""
    path = str(tmp_path / "flight" / "lock")
    held = locks.hold(path, False, lambda: None)
    assert locks.hold(path, False, lambda: locks.remove(path, held)) == -1
    assert not os.path.exists(path)
