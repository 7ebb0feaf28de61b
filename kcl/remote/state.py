"""The state of the remote, in facts and in words: for `kcl status`, `kcl explain` and `kcl doctor`."""

from __future__ import annotations

import os
from typing import Any

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.cache import places
from kcl.errors import CacheFault
from kcl.remote import ask, notes, project, seal, used
from kcl.remote.stores import shown


def facts() -> dict[str, Any]:
    """Return the facts on the remote, and the same in words: none without a remote. Asks nobody."""
    chosen = settings.read()
    noted = notes.outcomes() if chosen.remote else {}
    # The note of a push has a dot in its name.
    pulls = [outcome for name, outcome in noted.items() if "." not in name]
    packs = sum(1 for outcome in pulls if outcome.entries)
    entries, size, seconds = (
        sum(getattr(outcome, of) for outcome in pulls) for of in ("entries", "bytes", "seconds")
    )
    refused = [f"{outcome.driver}: {outcome.fault}" for outcome in noted.values() if outcome.fault]
    use = _unused(chosen) or (
        "read, and written after a run" if chosen.remote_write else "read only"
    )
    came = f"{counted(packs, 'pack', 'packs')} with {counted(entries, 'entry', 'entries')} came"
    words = [f"remote {shown(chosen.remote)}: {use}; {came}, {size} bytes in {seconds:.1f} s"]
    return {
        "address": shown(chosen.remote),
        "packs": packs,
        "entries": entries,
        "bytes": size,
        "seconds": seconds,
        "refused": refused,
        "words": [*words, *(f"remote: {refusal}" for refusal in refused)] if chosen.remote else [],
    }


def attempt() -> tuple[str, str]:
    """Try the remote now, within bounds; return what was found, and what is wrong with it. Empty without a remote."""
    chosen = settings.read()
    if not chosen.remote:
        return "", ""
    try:
        outcome = ask.by_hand("attempt", used.last() or project.name())
        # This raises for a key that cannot be read.
        seal.signing()
        fault = _unused(chosen) or outcome.fault or notes.refused_push(outcome.driver)
    except (OSError, CacheFault) as error:
        fault = str(error)
    if fault:
        return "", f"{shown(chosen.remote)}: {fault}"
    packs = outcome.remark or "no pack"
    words = f"{shown(chosen.remote)} answers in {outcome.seconds:.2f} s; of {outcome.driver} it has"
    return f"{words} {packs}", ""


def _unused(chosen: settings.Settings) -> str:
    """Return why the remote is not asked; empty if it is."""
    if chosen.no_cache >= {*settings.LAYERS}:
        return f"not asked: KCL_NO_CACHE={chosen.no_cache_value}"
    # The nearest folder that is there says whether the cache can be made.
    place = places.own()
    while not os.path.exists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return (
        ""
        if os.access(place, os.W_OK)
        else f"not asked: the own cache cannot be written ({places.own()})"
    )
