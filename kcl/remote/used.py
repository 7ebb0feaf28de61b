"""What runs used, in lists that wait for a push.

    packs/<project>.used/<name>    a list: a line for each entry with its layer and its address; named by its content
    packs/<project>.sent/<name>    an empty file for each list that was pushed
    packs/<project>.push           locked by the child that pushes
    packs/last.run                 the name of the project that ran last

<project> is a digest of its name. A missing or damaged list costs time only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from kcl.base import process
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish

Place = tuple[str, str]  # the name of a layer, and an address there
_LAST = "last.run"
_LARGE = 64 << 20  # bytes of a file of lines
_MANY = 64  # lists of one project, before they are joined


def path(name: str) -> str:
    """Return the path of a file among the notes, in a folder that exists; raises OSError and UnusableDirectory."""
    folder = places.own(places.PACKS)
    trust.make_trusted(folder)
    return os.path.join(folder, name)


def leave(project: str, used: Mapping[str, Iterable[str]]) -> bool:
    """Leave the addresses that this run used; return False if they wait, or were pushed, in an equal list."""
    folder = _folder(project, "used")
    if last() != project:
        publish(path(_LAST), project.encode())
    text = text_of((layer, address) for layer, addresses in used.items() for address in addresses)
    name, is_new = _write(folder, text)
    if is_new and len(names := {*os.listdir(folder)}) > _MANY:
        joined, _is_new = _write(folder, text_of(_read(folder)))
        _remove(folder, names - {joined})
    return is_new and not os.path.lexists(os.path.join(_folder(project, "sent"), name))


def last() -> str:
    """Return the name of the project that ran last; empty if none is known."""
    with suppress(OSError):
        return _content(os.path.join(places.own(places.PACKS), _LAST)).decode("utf-8", "replace")
    return ""


def waits(project: str) -> bool:
    """Return True if a list of this project waits for a push."""
    with suppress(OSError):
        return bool(os.listdir(_folder(project, "used")))
    return False


@contextmanager
def taken(project: str) -> Iterator[list[Place]]:
    """Take up what the runs of a project used, the least recently used first, as the only process that pushes it.

    What an error ends stays for the next push.
    """
    folder, sent = _folder(project, "used"), _folder(project, "sent")
    with locked(_folder(project, "push")):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        yield _read(folder)
        # A push that failed does not come here.
        for name in names:
            _write(sent, b"", name)
        _remove(folder, names)
        _remove(sent, [os.path.basename(file) for file in _files(sent)[: -4 * _MANY]])


@contextmanager
def locked(file: str) -> Iterator[None]:
    """Wait until this process alone has locked a file; a file system without locks lets everybody in."""
    with alone(trust.opened(file, trust.LOCK)):
        yield


@contextmanager
def alone(lock: int) -> Iterator[None]:
    """Wait until this process alone has locked an open file, and close it in the end."""
    try:
        with suppress(OSError):
            process.lock(lock, waits=True)
        yield
    finally:
        os.close(lock)


def text_of(entries: Iterable[Place]) -> bytes:
    """Return a line for each entry."""
    return "".join(f"{layer} {address}\n" for layer, address in dict.fromkeys(entries)).encode()


def lines(file: str) -> list[Place]:
    """Return layer and address in each line of a file that has both; raises OSError for one that cannot be read whole."""
    words = [line.split(" ") for line in _content(file).decode("ascii", "replace").splitlines()]
    return [(line[0], line[1]) for line in words if len(line) == 2]


def _content(file: str) -> bytes:
    content, status = trust.content(file, _LARGE, frozenset({0}))
    if status.st_size > len(content):
        raise OSError(f"{file} is larger than {_LARGE} bytes: remove it")
    return content


def _folder(project: str, end: str) -> str:
    return path(f"{hashlib.sha256(project.encode()).hexdigest()[:32]}.{end}")


def _write(folder: str, text: bytes, name: str = "") -> tuple[str, bool]:
    """Write a list that is named by its content, or touch it; return its name, and True if it is new."""
    trust.make_trusted(folder)
    name = name or hashlib.sha256(text).hexdigest()
    file = os.path.join(folder, name)
    try:
        # The time says which list is the latest.
        os.utime(file)
        return name, False
    except FileNotFoundError:
        publish(file, text)
        return name, True


def _read(folder: str) -> list[Place]:
    """Return the entries of the readable lists, those of the latest list last."""
    ordered: dict[Place, None] = {}
    for file in _files(folder):
        with suppress(OSError):
            for place in lines(file):
                # A later use moves an entry to the end.
                ordered.pop(place, None)
                ordered[place] = None
    return [*ordered]


def _files(folder: str) -> list[str]:
    """Return the paths of the files in a folder, the latest last."""
    dated = []
    with suppress(FileNotFoundError), os.scandir(folder) as items:
        for item in items:
            with suppress(FileNotFoundError):
                dated.append((item.stat().st_mtime_ns, item.path))
    return [file for _moment, file in sorted(dated)]


def _remove(folder: str, names: Iterable[str]) -> None:
    for name in names:
        # Another process may join them.
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))
