"""Lists of the entries that runs used, kept until a push.

    packs/<project>/<digest>    a list: layer and address of each entry, as JSON; named by its content
    packs/<project>.lock        locked by the process that pushes

<project> is a digest of its name. A missing or damaged list costs time only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from kcl.base.settings import trust
from kcl.cache import notes, places
from kcl.cache.locks import hold_alone
from kcl.cache.run_memo import EntryPlace
from kcl.cache.stores.directory import Directory
from kcl.errors import DamagedEntry

_LAST = "the project that ran last"
_LARGE = 64 << 20  # bytes of a list
_MANY = 64  # lists of one project, before they are joined


def leave(project: str, used: Iterable[EntryPlace]) -> None:
    """Write the list of entries that this run used; raises the errors of a store."""
    if last() != project:
        notes.write(_LAST, project)
    lists = _lists(project)
    # An equal list is written again, since its time says when the entries were last used.
    _put(lists, used)
    if len(names := [*lists.scan()]) > _MANY:
        joined = _put(lists, _read(lists, names))
        for name in {*names} - {joined}:
            lists.delete(name)


def last() -> str:
    """Return the name of the project that ran last; empty if none is known."""
    return str(notes.read(_LAST) or "")


def waits(project: str) -> bool:
    """Return True if a list of this project waits for a push."""
    return any(_lists(project).scan())


@contextmanager
def take(project: str) -> Iterator[list[EntryPlace]]:
    """Yield the entries that the runs of a project used, the least recently used first; other pushes wait meanwhile.

    The lists are removed after the block, or kept for the next push if the block raises.
    """
    lists = _lists(project)
    with hold_alone(open_lock(os.path.basename(lists.location))):
        names = [*lists.scan()]
        yield _read(lists, names)
        # This is not reached if the push failed.
        for name in names:
            lists.delete(name)


def open_lock(name: str) -> int:
    """Open the lock file of a project, and make its folder; raises OSError and UnusableDirectory."""
    folder = places.own(places.PACKS)
    trust.make_trusted(folder)
    return trust.open_file(os.path.join(folder, f"{name}.lock"), trust.LOCK)


def _lists(project: str) -> Directory:
    name = hashlib.sha256(project.encode()).hexdigest()[:32]
    return Directory(os.path.join(places.own(places.PACKS), name))


def _put(lists: Directory, used: Iterable[EntryPlace]) -> str:
    text = json.dumps([*used]).encode()
    name = hashlib.sha256(text).hexdigest()
    lists.put(name, text)
    return name


def _read(lists: Directory, names: Iterable[str]) -> list[EntryPlace]:
    """Return the entries in the lists that can be read, as (layer, address), the latest used last."""
    dated = []
    for name in names:
        with suppress(OSError, DamagedEntry):
            if head := lists.head(name, _LARGE):
                dated.append((head[0].used or 0.0, head[1]))
    ordered: dict[EntryPlace, None] = {}
    for _moment, text in sorted(dated):
        with suppress(ValueError, TypeError, RecursionError):
            for layer, address in json.loads(text):
                # A later use moves an entry to the end.
                ordered.pop(place := (str(layer), str(address)), None)
                ordered[place] = None
    return [*ordered]
