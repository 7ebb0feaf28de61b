"""Remembers the outcomes of the last pull and the last push of a project, as notes on this machine (`kcl.cache.notes`).

The name of a note depends on the remote and on the trusted keys, so it is not found after either has changed.
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

RETRY = 60.0  # seconds after a first failure in which no process tries again


class Outcome(NamedTuple):
    """The outcome of a pull or a push: the fault if it failed, the amount of data, and the time it took."""

    fault: str = ""
    entries: int = 0
    bytes: int = 0  # of the packs that were pulled, or of the pack that was pushed
    seconds: float = 0.0
    remark: str = ""
    failures: int = 0  # in a row


def note_name(work: str, project: str, address: str) -> str:
    """Return the name of the note on the last pull or push of a project."""
    return f"{work} {seal.project_digest(project)} {_terms(address)}"


def _terms(address: str) -> str:
    """Return a digest of the address and the trusted keys, which together decide which packs are accepted."""
    try:
        keys = str(seal.believed(address))
    except (OSError, CacheFault) as error:
        # The child will report this error.
        keys = str(error)
    return hashlib.sha256(json.dumps([address, keys]).encode()).hexdigest()[:16]


def recent(note: str, strict: bool = False) -> Outcome | None:
    """Return the last outcome if it is so recent that no process should try again yet; else None.

    With `strict` only an outcome later than the start of this process is recent.
    """
    outcome, age = read(note), notes.age(note)
    if outcome is None or age is None:
        return None
    lasts = (time.time_ns() - process.STARTED) * 1e-9 if strict else rest(outcome)
    return outcome if age < lasts else None


def rest(outcome: Outcome) -> float:
    """Return for how many seconds no process tries again; after failures it doubles, up to `remote_fresh`."""
    fresh = settings.read().remote_fresh
    return min(fresh, RETRY * 2 ** min(outcome.failures - 1, 16)) if outcome.fault else fresh


def write(note: str, outcome: Outcome) -> None:
    """Replace a note by a new outcome, which counts the failures in a row."""
    before = read(note) or Outcome()
    notes.write(note, outcome._replace(failures=before.failures + 1 if outcome.fault else 0))


def read(note: str) -> Outcome | None:
    """Return the outcome in a note; None if there is no readable note."""
    with suppress(TypeError):
        return Outcome(*notes.read(note))
    return None


def refused_push(project: str, address: str) -> str:
    """Say why the last push of a project failed; empty if it did not fail."""
    pushed = read(note_name("push", project, address))
    return f"the last push failed: {pushed.fault}" if pushed and pushed.fault else ""
