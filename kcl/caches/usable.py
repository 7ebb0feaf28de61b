"""Tests whether a cache is usable in its place: a driver that cannot write its cache may show no devices, or abort."""

from __future__ import annotations

import errno
import os

from kcl.base import settings
from kcl.base.settings import trust
from kcl.errors import CacheFault

ROOM = 256 << 10  # bytes of room that a cache needs: a few programs
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")


def fault(path: str) -> str:
    """Return the reason why a directory, which need not exist, is not writable; empty if it is. Leaves no trace.

    Root counts as unable to write in the home of another user: that user could not remove a file of root.
    """
    there = nearest(path)
    try:
        trust.check_writer(there)
        if not os.path.isdir(there):
            return f"{there} is no directory"
        if not _write_nameless(there):
            return _told(there)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def nearest(path: str) -> str:
    """Return the nearest existing directory on the way to a path."""
    path = os.path.abspath(path)
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def private(name: str) -> str:
    """Make a private directory for a cache among the temporary directories; return "" where none is usable."""
    for root in dict.fromkeys((settings.temporary(), *_TEMPORARY)):
        path = os.path.join(settings.private_folder(root), name)
        try:
            trust.make_trusted(path)
            if not fault(path):
                return path
        except (OSError, CacheFault):
            continue
    return ""


def _write_nameless(folder: str) -> bool:
    """Write a file without a name, which is gone when it is closed; False on a system without such files."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EOPNOTSUPP, errno.EINVAL):  # of this kernel, or of this file system
            return False
        raise
    try:
        left = ROOM
        while left > 0:
            left -= os.write(descriptor, bytes(left))
    finally:
        os.close(descriptor)
    return True


def _told(folder: str) -> str:
    """Return the fault that the system reports for a directory without a write; empty without a fault."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return "it cannot be written"
    if hasattr(os, "statvfs"):
        status = os.statvfs(folder)
        if status.f_bavail * status.f_frsize < ROOM or (status.f_files and not status.f_favail):
            return "its file system is full"
    return ""
