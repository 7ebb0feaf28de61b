"""Notes on packs, in plain files of kcl's own folder.

    packs/<digest>                 the outcome of the last pull of a project's packs, as JSON
    packs/<digest>.pushed          the outcome of the last push
    packs/<digest>.lock            locked by the child that pulls
    signers/<id>                   a line for each entry that came under that key: layer, address

A missing or damaged note costs time only.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from kcl.base import process, settings
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish
from kcl.errors import CacheFault
from kcl.remote import driver
from kcl.remote.seal import content
from kcl.remote.used import Place, lines, locked, path, text_of

RETRY = 60.0  # seconds for which no process tries again after the first failure


class Outcome(NamedTuple):
    """The outcome of a pull or a push: a fault if there was one, what came or went, and how long it took."""

    driver: str
    fault: str = ""
    entries: int = 0
    bytes: int = 0  # of the packs that came, or of the one that went: 0 for none
    seconds: float = 0.0
    terms: str = ""
    remark: str = ""
    failures: int = 0  # without a success between them, under these terms


def recent(digest: str, terms: str, strict: bool) -> Outcome | None:
    """Return the outcome of the last pull under these terms, if no process should ask that remote again yet.

    With `strict` that is one that another process got since this one began.
    """
    noted = read(digest)
    if noted is None or noted[0].terms != terms:
        return None
    lasts = (time.time_ns() - process.STARTED) * 1e-9 if strict else rest(noted[0])
    return noted[0] if noted[1] < lasts else None


def rest(outcome: Outcome) -> float:
    """Return the seconds for which no process tries again; they double with each failure, up to `remote_fresh`."""
    fresh = settings.read().remote_fresh
    return min(fresh, RETRY * 2 ** min(outcome.failures - 1, 16)) if outcome.fault else fresh


def write(name: str, outcome: Outcome) -> None:
    """Replace a note; raises OSError and UnusableDirectory."""
    if outcome.fault:
        before = read(name)
        is_again = before is not None and before[0].terms == outcome.terms
        outcome = outcome._replace(failures=1 + (before[0].failures if before and is_again else 0))
    publish(path(name), json.dumps(outcome).encode())


def read(name: str) -> tuple[Outcome, float] | None:
    """Return a note and its age in seconds, or None without a readable one."""
    try:
        text, moment = content(os.path.join(places.own(places.PACKS), name))
        # A clock may have gone back.
        return Outcome(*json.loads(text)), abs(time.time() - moment)
    except (OSError, CacheFault, ValueError, TypeError, RecursionError):
        return None


def refused_push(driver_name: str) -> str:
    """Return why the last push of a project failed, in words; empty if it did not."""
    pushed = read(f"{driver.digest(driver_name)}.pushed")
    return f"the last push failed: {pushed[0].fault}" if pushed and pushed[0].fault else ""


def outcomes() -> dict[str, Outcome]:
    """Return the outcomes of the last pull and the last push of each driver, by the names of the notes."""
    folder = places.own(places.PACKS)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {name: noted[0] for name in names if (noted := read(name)) is not None}


def arriving(signer: str, came: Iterable[Place]) -> dict[Place, set[str]]:
    """Note entries that are about to come under a key; return what was noted before. Raises OSError.

    What a killed process leaves so counts as come.
    """
    before = arrivals()
    settle(signer, came)
    return before


def settle(signer: str, came: Iterable[Place] = (), gone: Iterable[Place] = ()) -> None:
    """Note that entries came under a key, and forget it of those that are gone; raises OSError."""
    new, old = [*came], {*gone}
    _rewrite(
        signer, lambda lines: dict.fromkeys(place for place in [*lines, *new] if place not in old)
    )


def made(here: Iterable[Place]) -> None:
    """Forget under which keys entries came that were not there any more, and were made here. Raises nothing."""
    with suppress(OSError, CacheFault):
        noted, again = arrivals(), {*here}
        for signer in {signer for place in noted.keys() & again for signer in noted[place]}:
            settle(signer, gone=again)


def arrivals() -> dict[Place, set[str]]:
    """Return the ids of the keys under which each entry came, by layer and address; raises OSError."""
    folder, by_place = places.own(places.SIGNERS), dict[Place, set[str]]()
    for signer in os.listdir(folder) if os.path.isdir(folder) else []:
        for place in lines(os.path.join(folder, signer)):
            by_place.setdefault(place, set()).add(signer)
    return by_place


def _rewrite(signer: str, change: Callable[[list[Place]], Iterable[Place]]) -> None:
    """Change the file of a key, as the only process that does."""
    file = os.path.join(places.own(places.SIGNERS), signer)
    trust.make_trusted(os.path.dirname(file))
    with locked(path("signers.lock")):
        before = lines(file) if os.path.lexists(file) else []
        if (after := [*change(before)]) != before:
            publish(file, text_of(after)) if after else os.unlink(file)
