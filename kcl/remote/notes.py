"""Notes on packs, in plain files of kcl's own folder.

    packs/<digest>             the outcome of the last pull of a driver's pack, as JSON
    packs/<digest>.pushed      the outcome of the last push
    packs/<digest>.lock        locked by the child that pulls
    packs/<digest>.<pid>.used  the entries that a run used and partly made, for the next push
    packs/last                 the name of the driver that missed last
    arrivals                   a line for each entry that came: layer, address, signer's id, signer, name of the pack

A missing or damaged note costs time only.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish
from kcl.remote import driver

PULLED, ABSENT, REFUSED, FAILED, LATE = "pulled", "absent", "refused", "failed", "late"
_SIZE = 1 << 20  # bytes of a note that is read
_RUNS = 64  # runs of a driver whose entries wait for a push
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
    """Leave the addresses that this run used for the next push, and keep those of the last runs only."""
    mine = path(f"{digest}.{os.getpid()}.used")
    publish(mine, json.dumps({layer: list(addresses) for layer, addresses in used.items()}).encode())
    publish(path("last"), driver.encode())
    for file in runs(digest)[_RUNS:]:
        os.unlink(file)


def last() -> str:
    """Return the name of the driver that missed last; empty if none is known."""
    try:
        return _content(os.path.join(places.own(places.PACKS), "last"))[0].decode()
    except (OSError, ValueError):
        return ""


def runs(digest: str) -> list[str]:
    """Return the files with what runs of a driver used, the last one first."""
    folder = places.own(places.PACKS)
    try:
        names = [one for one in os.listdir(folder) if one.startswith(digest) and one.endswith(".used")]
    except OSError:
        return []
    found = [os.path.join(folder, one) for one in names]
    return sorted(found, key=os.path.getmtime, reverse=True)


def used(file: str) -> dict[str, list[str]]:
    """Return the addresses in a file of a run, by layer."""
    found: dict[str, Any] = json.loads(_content(file, 64 * _SIZE)[0])
    return {str(layer): [str(address) for address in addresses] for layer, addresses in found.items()}


def arrived(new: Iterable[Arrival]) -> None:
    """Add lines on entries that came."""
    text = "".join(" ".join(one) + "\n" for one in new)
    if text:
        trust.make_trusted(places.own())
        descriptor = os.open(places.own(places.ARRIVALS), os.O_WRONLY | os.O_CREAT | os.O_APPEND | trust.PLAIN, 0o600)
        with open(descriptor, "w", encoding="ascii") as stream:
            stream.write(text)


def arrivals() -> list[Arrival]:
    """Return the entries that came, oldest first."""
    try:
        lines = _content(places.own(places.ARRIVALS), 256 * _SIZE)[0].decode("ascii", "replace").splitlines()
    except OSError:
        return []
    return [Arrival(*fields) for line in lines if len(fields := line.split(" ")) == len(Arrival._fields)]


def _content(file: str, most: int = _SIZE) -> tuple[bytes, float]:
    """Return the start of a file of this user alone, and its time; raises OSError."""
    descriptor = os.open(file, trust.READ)
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        fault = trust.file_fault(status)
        if fault is not None:
            raise PermissionError(fault)
        return stream.read(most), status.st_mtime
