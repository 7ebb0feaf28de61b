"""What a stranger may put in the place of a file."""

import os
import stat

import pytest

KINDS = {
    "link": os.symlink,
    "fifo": lambda _target, path: os.mkfifo(path, 0o600),
    "directory": lambda _target, path: os.mkdir(path, 0o700),
    "socket": lambda _target, path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "device": lambda _target, path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
}


def plant(kind, target, path):
    """Put a link to the target, or a special file, at a path; skip the test if only root may."""
    if kind == "device" and os.geteuid() != 0:
        pytest.skip("only root can plant a device")
    KINDS[kind](target, path)
