"""Notes on packs, in plain files of kcl's own folder.

    packs/<digest>             the outcome of the last pull of a driver's pack, as JSON
    packs/<digest>.pushed      the outcome of the last push
    packs/<digest>.lock        locked by the child that pulls
    packs/<digest>.used        the entries that runs used and partly made, a line of JSON each, for the next push
    packs/last                 the name of the driver that missed last
    arrivals                   a line for each entry that came: layer, address, signer's id, signer, name of the pack

A missing or damaged note costs time only.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from kcl.base import settings
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish
from kcl.remote import driver

PULLED, ABSENT, REFUSED, FAILED, LATE = "pulled", "absent", "refused", "failed", "late"
_SIZE, _LARGE = 1 << 20, 64 << 20  # bytes of a note, and of a file of lines
_RETRY = 60.0  # seconds for which no process tries again after a failure


class Outcome(NamedTuple):
    """The outcome of a pull or a push: a state and the reason for it, what came or went, and how long it took."""

    driver: str
    state: str
    why: str = ""
    entries: int = 0
    bytes: int = 0
    seconds: float = 0.0
    terms: str = ""

    def lasts(self, fresh: float) -> float:
        """Return for how many seconds no process asks again."""
        return fresh if self.state in (PULLED, ABSENT) else min(fresh, _RETRY)


class Arrival(NamedTuple):
    """An entry that came with a pack."""

    layer: str
    address: str
    signer: str
    name: str
    pack: str


def of(work: str, digest: str) -> str:
    """Return the name of the note on a pull or a push."""
    return digest if work == "pull" else f"{digest}.pushed"


def recent(digest: str, address: str) -> Outcome | None:
    """Return the outcome of the last pull, if no process should ask that remote again yet; raises RemoteFault."""
    noted = read(digest)
    if noted is None or noted[0].terms != driver.terms(address):
        return None
    return noted[0] if noted[1] < noted[0].lasts(settings.read().remote_fresh) else None


def path(name: str) -> str:
    """Return the path of a note, in a folder that exists; raises OSError and UnusableDirectory."""
    folder = places.own(places.PACKS)
    trust.make_trusted(folder)
    return os.path.join(folder, name)


def write(name: str, outcome: Outcome) -> None:
    """Replace a note; raises OSError."""
    publish(path(name), json.dumps(outcome).encode())


def read(name: str) -> tuple[Outcome, float] | None:
    """Return a note and its age in seconds, or None without a readable one."""
    try:
        text, moment = _content(os.path.join(places.own(places.PACKS), name))
        return Outcome(*json.loads(text)), abs(time.time() - moment)
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def leave(digest: str, driver: str, used: Mapping[str, Iterable[str]]) -> None:
    """Leave the addresses that this run used for the next push."""
    _append(path(f"{digest}.used"), json.dumps({layer: list(addresses) for layer, addresses in used.items()}))
    publish(path("last"), driver.encode())


def last() -> str:
    """Return the name of the driver that missed last; empty if none is known."""
    try:
        return _content(os.path.join(places.own(places.PACKS), "last"))[0].decode()
    except (OSError, ValueError):
        return ""


def used(digest: str) -> dict[str, dict[str, None]]:
    """Return the addresses that the last runs of a driver used, by layer."""
    found: dict[str, dict[str, None]] = {}
    with suppress(OSError, ValueError, TypeError, AttributeError):  # what was read until then counts
        for line in _content(path(f"{digest}.used"), _LARGE)[0].splitlines():
            for layer, addresses in json.loads(line).items():
                found.setdefault(layer, {}).update(dict.fromkeys(map(str, addresses)))
    return found


def arrived(new: Iterable[Arrival]) -> None:
    """Add lines on entries that came."""
    if lines := [" ".join(one) for one in new]:
        _append(places.own(places.ARRIVALS), "\n".join(lines))


def arrivals() -> list[Arrival]:
    """Return the entries that came, oldest first."""
    try:
        lines = _content(places.own(places.ARRIVALS), _LARGE)[0].decode("ascii", "replace").splitlines()
    except OSError:
        return []
    return [Arrival(*fields) for line in lines if len(fields := line.split(" ")) == len(Arrival._fields)]


def _append(file: str, text: str) -> None:
    """Add lines to a file, in one piece; one that has grown large begins anew."""
    trust.make_trusted(os.path.dirname(file))
    with open(trust.opened(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | trust.PLAIN), "wb", 0) as stream:
        if os.fstat(stream.fileno()).st_size > _LARGE:
            stream.truncate(0)
        stream.write(f"{text}\n".encode())


def _content(file: str, most: int = _SIZE) -> tuple[bytes, float]:
    """Return the start of a file of this user alone, and its time; raises OSError."""
    descriptor = os.open(file, trust.READ)
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if (fault := trust.file_fault(status)) is not None:
            raise PermissionError(fault)
        return stream.read(most), status.st_mtime
