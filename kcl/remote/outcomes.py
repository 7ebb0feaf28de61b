"""The outcomes of the last pull and the last push of a project, in notes of this machine (`kcl.cache.notes`).

A note is of one remote and of the keys that are trusted: under other terms it says nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from typing import NamedTuple

from kcl.base import process, settings
from kcl.cache import notes
from kcl.errors import CacheFault
from kcl.remote import seal

RETRY = 60.0  # seconds for which no process tries again after the first failure


class Outcome(NamedTuple):
    """The outcome of a pull or a push: a fault if there was one, what came or went, and how long it took."""

    fault: str = ""
    entries: int = 0
    bytes: int = 0  # of the packs that came, or of the one that went: 0 for none
    seconds: float = 0.0
    remark: str = ""
    failures: int = 0  # without a success between them


def note_name(work: str, project: str, address: str) -> str:
    """Return the name of the note on the last pull or push of a project."""
    return f"{work} {seal.project_digest(project)} {_terms(address)}"


def _terms(address: str) -> str:
    """Return a digest of what decides which packs are believed."""
    try:
        keys = str(seal.believed(address))
    except (OSError, CacheFault) as error:
        # The child says so.
        keys = str(error)
    return hashlib.sha256(json.dumps([address, keys]).encode()).hexdigest()[:16]


def recent(note: str, strict: bool = False) -> Outcome | None:
    """Return the last outcome, if no process should try again yet.

    With `strict` that is one that another process got since this one began.
    """
    outcome, age = read(note), notes.age(note)
    if outcome is None or age is None:
        return None
    lasts = (time.time_ns() - process.STARTED) * 1e-9 if strict else rest(outcome)
    return outcome if age < lasts else None


def rest(outcome: Outcome) -> float:
    """Return the seconds for which no process tries again; they double with each failure, up to `remote_fresh`."""
    fresh = settings.read().remote_fresh
    return min(fresh, RETRY * 2 ** min(outcome.failures - 1, 16)) if outcome.fault else fresh


def write(note: str, outcome: Outcome) -> None:
    """Replace a note."""
    before = read(note) or Outcome()
    notes.write(note, outcome._replace(failures=before.failures + 1 if outcome.fault else 0))


def read(note: str) -> Outcome | None:
    """Return the last outcome; None without a readable note."""
    with suppress(TypeError):
        return Outcome(*notes.read(note))
    return None


def refused_push(project: str, address: str) -> str:
    """Return why the last push of a project failed, in words; empty if it did not."""
    pushed = read(note_name("push", project, address))
    return f"the last push failed: {pushed.fault}" if pushed and pushed.fault else ""
