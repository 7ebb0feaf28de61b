"""Digests of the files of packages.

A package counts by the contents of its source and library files. Their sizes, times and inodes are kept in a note on
this machine, and only say whether files must be read again. Files that changed in the last two seconds are read again,
since a further change may not show in their times. So are the files of a package in which no time has a fraction of a
second, as in container images that give all files one time.
"""

from __future__ import annotations

import functools
import hashlib
import marshal
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kcl.cache import notes

# The file in which an installation lists its files with their digests.
RECORD = "RECORD"
_SUFFIXES = (".py", ".pyc", ".so", ".pyd", ".dll", ".dylib", ".cl", ".h")
_SECOND = 10**9  # nanoseconds
_RECENT = 2 * _SECOND
# Lines of a record that do not count: files outside of the directory, metadata, and the files of an editable install.
# `lines` also drops those without a digest: compiled files, and the record itself.
_volatile = re.compile(rb"\.\.|[^,]*\.dist-info/|__editable__|[^/,]*\.(?:pth|egg-link),").match

Roots = tuple[tuple[str, str], ...]  # (label, path) of the folders and files of a package


class File(NamedTuple):
    """One file: its label in the package, its path, and (size, times, inode), which is None if it is not readable."""

    label: str
    path: str
    status: tuple[int, ...] | None

    @property
    def changed(self) -> int:
        """The time of the last change in nanoseconds."""
        return max(self.status[1:3]) if self.status is not None else time.time_ns()


def digests(packages: Mapping[str, Roots]) -> dict[str, tuple[str, str]]:
    """Return name -> (digest, `stamp` of the files) for packages."""
    moment, name_of_note = time.time_ns(), f"files {_sha256(repr(packages).encode())}"
    old_note, new_note, results = notes.read(name_of_note) or {}, {}, {}
    for name, roots in packages.items():
        files = [*listed(roots)]
        before, digest = old_note.get(name, ("", ""))
        now = stamp(files)
        results[name] = digest if before == now else _digest(files), now
        changes = [file.changed for file in files]
        is_settled = all(change < moment - _RECENT for change in changes)
        if is_settled and any(change % _SECOND for change in changes):
            new_note[name] = [now, results[name][0]]
    if new_note != old_note:
        notes.write(name_of_note, new_note)
    return results


def stamp(files: list[File]) -> str:
    """Return a digest of the sizes, times and inodes of files; while it is the same, they need not be read again."""
    return _sha256(marshal.dumps([(file.label, file.status) for file in files], 2))


def contents(digest: str) -> dict[str, str]:
    """Return label -> digest of the files that a package's digest covers; empty if this machine has not read them."""
    return notes.read(f"files {digest}") or {}


def listed(roots: Roots) -> Iterator[File]:
    """Yield the files of a package, in an order that is the same on every machine."""
    for label, path in roots:
        if os.path.isdir(path):
            yield from _below(label, path)
        else:
            above = path
            while not os.path.exists(above) and os.path.dirname(above) != above:
                # A path inside a zip archive: the archive counts as one file.
                above = os.path.dirname(above)
            yield File(label, above, _status(functools.partial(os.stat, above)))


def _below(label: str, path: str) -> Iterator[File]:
    try:
        with os.scandir(path) as items:
            entries = sorted(items, key=lambda item: item.name)
    except OSError:
        # Counts as a file that is not readable.
        yield File(label, path, None)
        return
    for item in entries:
        name = item.name
        if name.endswith(_SUFFIXES):
            # Names with a leading dot are skipped: an editor's lock may be a link to nothing.
            if name[:1] != ".":
                yield File(f"{label}/{name}", item.path, _status(item.stat))
        elif name != "__pycache__" and item.is_dir() and not _leads_above(item):
            yield from _below(f"{label}/{name}", item.path)


def _leads_above(item: os.DirEntry[str]) -> bool:
    """Return True for a link to one of its own parent folders."""
    if not item.is_symlink():
        return False
    here, there = map(os.path.realpath, (os.path.dirname(item.path), item.path))
    return f"{here}{os.sep}".startswith(f"{there}{os.sep}")


def _status(ask: Callable[[], os.stat_result]) -> tuple[int, ...] | None:
    try:
        status = ask()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _digest(files: list[File]) -> str:
    """Return the digest of files, and keep the digest of each in a note, for explanations."""
    table = {file.label: _digest_of_file(file.path) for file in files}
    digest = _of_table(table)
    notes.write(f"files {digest}", {label: text[:16] for label, text in table.items()})
    return digest


def digest_of(path: str) -> str:
    """Return the digest of a file, or of the files below a folder."""
    return _of_table({file.label: _digest_of_file(file.path) for file in listed((("", path),))})


def _of_table(table: Mapping[str, str]) -> str:
    text = "\n".join([f"{label} {digest}" for label, digest in table.items()])
    return _sha256(text.encode("utf-8", "surrogateescape"))


def _digest_of_file(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError:
        # A random digest, so that an entry with it never hits.
        data = os.urandom(32)
    data = b"\n".join(lines(data)) if os.path.basename(path) == RECORD else data
    return _sha256(data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def lines(record: bytes) -> list[bytes]:
    """Return the lines of RECORD that count, sorted."""
    return sorted(
        [line for line in record.splitlines() if line[-1:] not in b"," and not _volatile(line)]
    )
