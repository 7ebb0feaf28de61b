"""Repair: before PoCL loads the binary of an entry, its own cache holds for the program what the entry holds.

PoCL checks none of its files, and where one is there the file in a binary is not used: a damaged one ends every process
that loads the program. Its files are those that PoCL wrote, or would write for the binary if they were missing. So one
with other bytes is replaced by the entry's, whose digest was verified, in one step. One that is missing PoCL writes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kcl import caches
from kcl.base import events, process
from kcl.base.settings import trust

if TYPE_CHECKING:
    from kcl.cache.entry import Entry

# as in `kcl.drivers.pocl.poclbin`, which reads every length; this reads those that lead from file to file
_HEADER = struct.Struct("<8sQIIQ40s")
_SIZES = struct.Struct("<QQ")
_WORD = struct.Struct("<I")
_KNOWN = b"poclbin\0", 8


class State:
    """Where this process's PoCL has its cache: the driver reads the variables once."""

    def __init__(self) -> None:
        self.folder = os.path.abspath(caches.directory_in_use("pocl"))


_state = process.own(State)


def repair(entry: Entry) -> None:
    """Replace what PoCL's cache holds instead of the entry's files; raises nothing. Thread-safe."""
    binary = entry.parts["binary"]
    try:
        if any(not _holds(path, content) for path, content in _files(binary)):
            _replace(_state().folder, binary)
    except (OSError, ValueError, struct.error) as error:  # what is wrong with it PoCL will say
        events.logger().info("PoCL's cache cannot be repaired: %r", error)


def differing(entry: Entry) -> list[str]:
    """Return the files of PoCL's cache that hold other bytes than an entry; raises nothing."""
    try:
        return [path for path, content in _files(entry.parts["binary"]) if not _holds(path, content)]
    except (ValueError, struct.error):
        return []


def _files(binary: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield where PoCL looks for each file of a binary, and its content; nothing where the container is another."""
    magic, _device, version, kernels, _flags, program = _HEADER.unpack_from(binary)
    if (magic, version) != _KNOWN:
        return
    folder = f"{_state().folder}/{program.decode('ascii')}"
    path, start, position = _file(binary, _HEADER.size + 1)
    yield folder + path, binary[start:position]
    for _ in range(kernels):
        size, files_size = _SIZES.unpack_from(binary, position)
        end = position + size
        position = end - files_size
        while position < end:
            path, start, position = _file(binary, position)
            yield folder + path, binary[start:position]


def _file(binary: bytes, position: int) -> tuple[str, int, int]:
    """Return the path of the file at a position, and where its content begins and ends."""
    start = position + 4 + _WORD.unpack_from(binary, position)[0]
    return binary[position + 4 : start].decode("ascii"), start + 4, start + 4 + _WORD.unpack_from(binary, start)[0]


def _holds(path: str, content: bytes) -> bool:
    """Tell whether a file holds these bytes, or is not there."""
    try:
        descriptor = os.open(path, trust.READ)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return os.read(descriptor, len(content) + 1) == content
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _replace(cache: str, binary: bytes) -> None:
    """Put the files of a binary into PoCL's cache where others lie; one that cannot be is removed with its program."""
    import shutil

    from kcl.drivers.pocl import poclbin

    container = poclbin.read(binary)
    folder = f"{cache}/{container.program}"
    try:
        for path, content in container.files().items():
            if not _holds(folder + path, content):
                _publish(folder + path, content)
                events.logger().info("PoCL's %s%s was replaced by its entry's", folder, path)
    except OSError:
        for place in (os.path.dirname(folder), folder):
            if os.path.lexists(place) and not os.path.isdir(place):
                os.unlink(place)
        shutil.rmtree(folder, ignore_errors=True)


def _publish(path: str, content: bytes) -> None:
    from kcl.cache.stores.directory import publish

    publish(path, content)
    with suppress(OSError, AttributeError):  # root leaves it to the owner of the folder
        owner = os.stat(os.path.dirname(path))
        if os.geteuid() == 0 and owner.st_uid:
            os.chown(path, owner.st_uid, owner.st_gid)
