"""Tests whether a cache is usable in its place: a driver that cannot write its cache may show no devices, or abort."""

from __future__ import annotations

import os
import tempfile

from kcl.base import settings
from kcl.base.settings import trust
from kcl.errors import CacheFault

# The bytes of room that a cache needs: a few programs.
ROOM = 256 << 10
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")


def fault(path: str, gives: bool = False) -> str:
    """Return why files cannot be made in a directory, which need not exist; empty if they can. Leaves no file.

    Mode bits say nothing of full disks, quotas and root: a file without a name is written. Root counts as unable to
    write in the home of another user, who could not remove a file of root, unless the writer `gives` its files away.
    """
    there = trust.nearest(path)
    try:
        trust.check_writer(there, gives)
        if not os.path.isdir(there):
            return f"{there} is no directory"
        with tempfile.TemporaryFile(dir=there) as stream:
            stream.write(bytes(ROOM))
            stream.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


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
