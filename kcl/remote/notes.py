"""Notes on packs, in plain files of kcl's own folder.

    packs/<digest>                 the outcome of the last pull of a driver's packs, as JSON
    packs/<digest>.pushed          the outcome of the last push
    packs/<digest>.lock            locked by the child that pulls
    packs/<digest>.push            locked by the child that pushes
    packs/<digest>.used/<name>     a list of entries that runs used: a line each with layer and address; named by content
    packs/<digest>.taken-<n>/      such lists that a push has taken up, until it has succeeded
    packs/last.run                 an outcome with nothing but the name of the driver that ran last
    signers/<id>                   a line for each entry that came under that key: layer, address

A missing or damaged note costs time only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kcl.base import process, settings
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish
from kcl.errors import CacheFault
from kcl.remote.seal import content

Place = tuple[str, str]  # the name of a layer, and an address there
_LAST = "last.run"
_LARGE = 64 << 20  # bytes of a file of lines
_MANY = 64  # lists of one driver, before they are joined
_RETRY = 60.0  # seconds for which no process tries again after a failure


class Outcome(NamedTuple):
    """The outcome of a pull or a push: a fault if there was one, what came or went, and how long it took."""

    driver: str
    fault: str = ""
    entries: int = 0
    bytes: int = 0  # of the packs that came, or of the one that went: 0 for none
    seconds: float = 0.0
    terms: str = ""
    remark: str = ""


def recent(digest: str, terms: str, strict: bool) -> Outcome | None:
    """Return the outcome of the last pull under these terms, if no process should ask that remote again yet.

    With `strict` that is one that another process got since this one began.
    """
    noted = read(digest)
    if noted is None or noted[0].terms != terms:
        return None
    fresh = settings.read().remote_fresh
    lasts = min(fresh, _RETRY) if noted[0].fault else fresh
    return (
        noted[0]
        if noted[1] < ((time.time_ns() - process.STARTED) * 1e-9 if strict else lasts)
        else None
    )


def path(name: str) -> str:
    """Return the path of a note, in a folder that exists; raises OSError and UnusableDirectory."""
    folder = places.own(places.PACKS)
    trust.make_trusted(folder)
    return os.path.join(folder, name)


def write(name: str, outcome: Outcome) -> None:
    """Replace a note; raises OSError and UnusableDirectory."""
    publish(path(name), json.dumps(outcome).encode())


def read(name: str) -> tuple[Outcome, float] | None:
    """Return a note and its age in seconds, or None without a readable one."""
    try:
        text, moment = content(os.path.join(places.own(places.PACKS), name))
        return Outcome(*json.loads(text)), abs(time.time() - moment)
    except (OSError, CacheFault, ValueError, TypeError, RecursionError):
        return None


def outcomes() -> dict[str, Outcome]:
    """Return the outcomes of the last pull and the last push of each driver, by the names of the notes."""
    folder = places.own(places.PACKS)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {name: noted[0] for name in names if (noted := read(name)) is not None}


def leave(digest: str, driver: str, used: Mapping[str, Iterable[str]]) -> bool:
    """Leave the addresses that this run used for the next push; return False if such a list waits already."""
    places_used = [(layer, address) for layer, addresses in used.items() for address in addresses]
    folder = path(f"{digest}.used")
    if (last := read(_LAST)) is None or last[0].driver != driver:
        write(_LAST, Outcome(driver))
    is_new = _list(folder, places_used)
    if is_new and len(names := os.listdir(folder)) > _MANY:
        _list(folder, _used([folder]))
        for name in names:
            with suppress(OSError):  # another process joins them, or takes them up
                os.unlink(os.path.join(folder, name))
    return is_new


def last() -> str:
    """Return the name of the driver that ran last; empty if none is known."""
    noted = read(_LAST)
    return noted[0].driver if noted is not None else ""


@contextmanager
def taken(digest: str) -> Iterator[list[Place]]:
    """Take up what the runs of a driver used, the least recently used first, as the only process that pushes it.

    What an error ends stays for the next push.
    """
    lock = trust.opened(path(f"{digest}.push"), trust.LOCK)
    try:
        _lock(lock)
        with suppress(FileNotFoundError):
            os.rename(path(f"{digest}.used"), path(f"{digest}.taken-{time.time_ns()}"))
        folder, start = places.own(places.PACKS), f"{digest}.taken-"
        folders = [
            os.path.join(folder, name)
            for name in sorted(os.listdir(folder))
            if name.startswith(start)
        ]
        yield _used(folders)
        for one in folders:
            shutil.rmtree(one, ignore_errors=True)
    finally:
        os.close(lock)


def arrived(signer: str, came: Iterable[Place], again: Iterable[Place] = ()) -> None:
    """Note entries that came under a key, and those that came `again`: under another key they are noted already."""
    before = arrivals()
    new = [place for place in came if signer not in before.get(place, ())]
    new += [place for place in again if place in before and signer not in before[place]]
    if not new:
        return
    file = os.path.join(places.own(places.SIGNERS), signer)
    trust.make_trusted(os.path.dirname(file))
    lock = trust.opened(path("signers.lock"), trust.LOCK)
    try:
        _lock(lock)
        publish(file, _text(dict.fromkeys([*_lines(file), *new])))
    finally:
        os.close(lock)


def arrivals() -> dict[Place, set[str]]:
    """Return the ids of the keys under which each entry came, by layer and address."""
    folder, found = places.own(places.SIGNERS), dict[Place, set[str]]()
    for signer in os.listdir(folder) if os.path.isdir(folder) else []:
        for place in _lines(os.path.join(folder, signer)):
            found.setdefault(place, set()).add(signer)
    return found


def forget(signer: str) -> None:
    """Forget what came under a key."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(places.own(places.SIGNERS), signer))


def _list(folder: str, lines: list[Place]) -> bool:
    """Write a list that is named by its content; return False if it was there. A push may take up the folder now."""
    text = _text(dict.fromkeys(lines))
    for is_last in (False, True):
        trust.make_trusted(folder)
        file = os.path.join(folder, hashlib.sha256(text).hexdigest())
        try:
            os.utime(file)
            return False
        except FileNotFoundError:
            pass
        try:
            publish(file, text)
            return True
        except FileNotFoundError:
            if is_last:
                raise
    return True


def _used(folders: list[str]) -> list[Place]:
    """Return the entries of lists, those of the latest list last."""
    found: dict[Place, None] = {}
    files = []
    for folder in folders:
        with suppress(FileNotFoundError):
            files += [(one.stat().st_mtime_ns, one.path) for one in os.scandir(folder)]
    for _moment, file in sorted(files):
        for place in _lines(file):
            found.pop(place, None)
            found[place] = None
    return [*found]


def _text(lines: Iterable[Place]) -> bytes:
    return "".join(f"{layer} {address}\n" for layer, address in lines).encode()


def _lines(file: str) -> list[Place]:
    """Return layer and address in each line of a file; none without a readable one."""
    try:
        text = content(file, _LARGE)[0].decode("ascii", "replace")
    except (OSError, CacheFault):
        return []
    words = [line.split(" ") for line in text.splitlines()]
    return [(line[0], line[1]) for line in words if len(line) == 2]


def _lock(descriptor: int) -> None:
    """Wait until this process alone has locked a file; a file system without locks lets everybody in."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
