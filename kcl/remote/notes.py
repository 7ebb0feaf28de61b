"""Notes on packs, in plain files of kcl's own folder.

    packs/<digest>             the outcome of the last pull of a driver's pack, as JSON
    packs/<digest>.pushed      the outcome of the last push
    packs/<digest>.lock        locked by the child that pulls
    packs/<digest>.used        a line for each entry that a run used and partly made, for the next push: layer, address
    packs/last.run             an outcome with nothing but the name of the driver that missed last
    arrivals                   a line for each entry that came: layer, address, name of the pack (with its signer)

A missing or damaged note costs time only.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcl.base import process, settings
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish
from kcl.errors import CacheFault
from kcl.remote.seal import content

_LAST = "last.run"
_LARGE = 64 << 20  # bytes of a file of lines
_RETRY = 60.0  # seconds for which no process tries again after a failure


class Outcome(NamedTuple):
    """The outcome of a pull or a push: a fault if there was one, what came or went, and how long it took."""

    driver: str
    fault: str = ""
    entries: int = 0
    bytes: int = 0  # of the pack that came or went: 0 for none
    seconds: float = 0.0
    terms: str = ""


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


def leave(digest: str, driver: str, used: Mapping[str, Iterable[str]]) -> None:
    """Leave the addresses that this run used for the next push."""
    _append(
        path(f"{digest}.used"),
        [(layer, address) for layer, addresses in used.items() for address in addresses],
    )
    write(_LAST, Outcome(driver))


def last() -> str:
    """Return the name of the driver that missed last; empty if none is known."""
    noted = read(_LAST)
    return noted[0].driver if noted is not None else ""


def used(digest: str) -> dict[tuple[str, str], None]:
    """Return layer and address of the entries that the last runs of a driver used."""
    return {(line[0], line[1]): None for line in _lines(path(f"{digest}.used")) if len(line) == 2}


def arrived(pack_name: str, new: Iterable[tuple[str, str]]) -> None:
    """Add lines on entries that came with a pack, given by layer and address."""
    _append(places.own(places.ARRIVALS), [(*place, pack_name) for place in new])


def arrivals() -> dict[tuple[str, str], str]:
    """Return the id of the key that signed each entry that came, by layer and address."""
    lines = [line for line in _lines(places.own(places.ARRIVALS)) if len(line) == 3]
    return {(layer, address): pack.rpartition("/")[2] for layer, address, pack in lines}


def _append(file: str, lines: list[tuple[str, ...]]) -> None:
    """Add lines to a file in one write; a file that has grown large loses its earlier lines first."""
    if not lines:
        return
    trust.make_trusted(os.path.dirname(file))
    with open(
        trust.opened(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | trust.PLAIN), "wb", 0
    ) as stream:
        if os.fstat(stream.fileno()).st_size > _LARGE:
            stream.truncate(0)
        stream.write("".join(f"{' '.join(line)}\n" for line in lines).encode())


def _lines(file: str) -> list[list[str]]:
    """Return the words of each line of a file; none without a readable one."""
    try:
        return [
            line.split(" ")
            for line in content(file, _LARGE)[0].decode("ascii", "replace").splitlines()
        ]
    except (OSError, CacheFault):
        return []
