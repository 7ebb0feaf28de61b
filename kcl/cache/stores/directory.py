"""A store with one file per entry, which is replaced as a whole."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress

from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores import Head, Stat, digest_of
from kcl.errors import CacheFault, DamagedEntry

TEMPORARY_AGE = 3600.0  # seconds after which the writer of a temporary file must have been killed
NOTED = 86400.0  # seconds between two recorded uses of a file

# The errors of opening a link, a special file, a directory, or a file of another owner or of too large a size.
_NO_ENTRY = (errno.EPERM, errno.EFBIG, errno.ELOOP, errno.ENXIO, errno.EMLINK, errno.EISDIR)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | trust.PLAIN


class Directory:
    """Keep each blob in the file ``root/<address>``, mode 0600, in directories of mode 0700.

    Nothing is created before the first `put`. A reader sees an old entry, a new one or none, never a part of one,
    and takes no lock. `put` calls no fsync: a crash may lose entries, and the reader verifies. With `notes_use` a `get`
    sets the file's time of modification, at most once a day: `head` returns it as the time of the last use. Without
    `notes_use` that is the time of the last `put`.

    With `everyone` files have mode 0644 and directories 0755. With `others`, user ids, their files are read like my own,
    and the store is not `writable`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        notes_use: bool = False,
        everyone: bool = False,
        others: frozenset[int] = frozenset(),
    ) -> None:
        self.location = os.path.abspath(root)
        self.writable = not others
        self._notes_use = notes_use
        self._mode = 0o755 if everyone else 0o700
        self._others = others
        # True once the directory has been checked.
        self._trusted = False
        self._swept = False

    def get(self, address: str) -> bytes | None:
        """Return the bytes of the file; raise `DamagedEntry` unless it is a regular file that only this user can write."""
        head = self.head(address, trust.LARGEST)
        if head is None:
            return None
        if self._notes_use and not 0.0 <= time.time() - (head[0].used or 0.0) <= NOTED:
            # The directory may be read-only.
            with suppress(OSError):
                os.utime(f"{self.location}/{address}")
        return head[1]

    def put(self, address: str, blob: bytes) -> None:
        """Write a temporary file and rename it. If two processes write one address, the last one wins; both are valid."""
        digest_of(address)
        self._prepare(address)
        publish(f"{self.location}/{address}", blob, self._mode & 0o666)
        if not self._swept:
            self._swept = True
            self._sweep()

    def head(self, address: str, length: int) -> Head | None:
        """Return the stat and the first bytes of the file, checked as in `get`. This does not count as a use."""
        try:
            return self._head(self._checked(address), length)
        except FileNotFoundError:
            return None

    def heads(self, length: int) -> Iterator[tuple[str, Head | OSError | CacheFault]]:
        """Yield each address with what `head` returns, or with the error that it raises; a folder is checked once."""
        checked = ""
        for address, item in self.items():
            head: Head | OSError | CacheFault
            try:
                if checked != (folder := os.path.dirname(item.path)):
                    self._checked(address)
                    checked = folder
                head = self._head(item.path, length)
            except FileNotFoundError:
                # Another process has removed the file.
                continue
            except (OSError, CacheFault) as error:
                head = error
            yield address, head

    def _head(self, path: str, length: int) -> Head:
        try:
            start, status = trust.read(path, length, self._others)
        except OSError as error:
            if error.errno in _NO_ENTRY:
                raise DamagedEntry(
                    f"{path} is no regular file of ours: {error.strerror}; remove it"
                ) from error
            raise
        return Stat(status.st_size, status.st_mtime), start

    def delete(self, address: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._checked(address))

    def keep_newest(self, number: int) -> None:
        """Delete all but the `number` files that were used last."""
        moments = [
            (item.stat(follow_symlinks=False).st_mtime_ns, address)
            for address, item in self.items()
        ]
        for _moment, address in sorted(moments, reverse=True)[number:]:
            self.delete(address)

    def scan(self) -> Iterator[str]:
        return (address for address, _item in self.items())

    def items(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield each address with the directory entry of its file."""
        for item, folder in self._files() if self._is_there() else ():
            address = f"{folder}/{item.name}" if folder else item.name
            with suppress(ValueError):
                digest_of(address)
                yield address, item

    def _is_there(self) -> bool:
        if not self._trusted and trust.check(self.location, self._others):
            if self.writable:
                trust.refuse_root_owned(self.location)
            self._trusted = True
        return self._trusted

    def _checked(self, address: str) -> str:
        """Return the path of an address after checking its folders; raise `FileNotFoundError` if one is missing.

        O_NOFOLLOW applies to the last component only, so a folder that is a link is refused here.
        """
        digest_of(address)
        if not self._is_there():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.location)
        path = f"{self.location}/{address}"
        if "/" in address:
            trust.check_folder(os.path.dirname(path), self._others)
        return path

    def _prepare(self, address: str) -> None:
        # Checked for each `put`, since the directory may be removed at any time.
        trust.make_trusted(self.location, self._mode)
        self._trusted = True
        if "/" in address:
            folder = os.path.dirname(f"{self.location}/{address}")
            with suppress(FileExistsError):
                trust.make_folder(folder, self._mode)
            trust.check_folder(folder)

    def _files(self) -> Iterator[tuple[os.DirEntry[str], str]]:
        """Yield the regular files of root and its folders; a file may vanish during the scan."""
        items = list(_items(self.location))
        for folder in [None, *(item for item in items if item.is_dir(follow_symlinks=False))]:
            for item in items if folder is None else _items(folder.path):
                if item.is_file(follow_symlinks=False):
                    yield item, folder.name if folder is not None else ""

    def _sweep(self) -> None:
        """Remove old temporary files, which killed writers left behind."""
        with suppress(OSError):
            for item in [
                item for item, _ in self._files() if item.name.startswith(places.TEMPORARY)
            ]:
                with suppress(OSError):
                    if time.time() - item.stat(follow_symlinks=False).st_mtime > TEMPORARY_AGE:
                        os.unlink(item.path)


def publish(path: str, blob: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all, by renaming a temporary file in the same directory."""
    temporary = os.path.join(os.path.dirname(path), places.TEMPORARY + os.urandom(8).hex())
    descriptor = trust.open_file(temporary, _WRITE, mode)
    try:
        try:
            rest = memoryview(blob)
            while rest:
                # One call may write a part only.
                rest = rest[os.write(descriptor, rest) :]
        finally:
            # Inside `try`, since a full disk or quota may show only here.
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _items(path: str) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError):
        with os.scandir(path) as items:
            yield from items
