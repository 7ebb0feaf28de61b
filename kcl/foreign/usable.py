"""Tests whether a cache directory is usable. A driver that cannot write its cache may show no devices, or abort."""

from __future__ import annotations

import os
import tempfile

from kcl.base import settings
from kcl.base.settings import trust
from kcl.errors import CacheFault

# The free bytes that a cache must have: room for a few programs.
ROOM = 256 << 10
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")


def fault(path: str, gives: bool = False) -> str:
    """Return why files cannot be made in a directory, which need not exist; empty if they can.

    A nameless file is written and dropped, since mode bits say nothing of full disks, quotas and root. Root may not write
    in the home of another user, who could not remove a file of root, unless the writer `gives` its files to that user.
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
    """Make a private temporary directory for a cache and return its path; return "" if none is usable."""
    for root in dict.fromkeys((settings.temporary(), *_TEMPORARY)):
        path = os.path.join(settings.private_folder(root), name)
        try:
            trust.make_trusted(path)
            if not fault(path):
                return path
        except (OSError, CacheFault):
            continue
    return ""
