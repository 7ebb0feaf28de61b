"""The state of the remote, in facts and in words: for `kcl status`, `kcl explain` and `kcl doctor`."""

from __future__ import annotations

import os
from typing import Any

from kcl.base import settings
from kcl.base.settings import trust
from kcl.base.text.layout import counted
from kcl.cache import places
from kcl.errors import CacheFault
from kcl.remote import ask, notes, project, seal, used
from kcl.remote.notes import Outcome
from kcl.remote.stores import shown


def facts() -> dict[str, Any]:
    """Return the facts on the remote for the project that ran last, and the same in words. Asks nobody."""
    chosen, name = settings.read(), used.last() or project.name()
    pulled, pushed = (
        (chosen.remote and notes.read(notes.name(work, name, chosen.remote))) or Outcome()
        for work in ("pull", "push")
    )
    refused = [f"{name}: {outcome.fault}" for outcome in (pulled, pushed) if outcome.fault]
    use = _unused(chosen) or (
        "read, and written after a run" if chosen.remote_write else "read only"
    )
    came = f"{counted(pulled.entries, 'entry', 'entries')} of {name} came"
    came += f", {pulled.bytes} bytes in {pulled.seconds:.1f} s"
    words = [f"remote {shown(chosen.remote)}: {use}; {came}"]
    return {
        "address": shown(chosen.remote),
        "entries": pulled.entries,
        "bytes": pulled.bytes,
        "seconds": pulled.seconds,
        "refused": refused,
        "words": [*words, *(f"remote: {refusal}" for refusal in refused)] if chosen.remote else [],
    }


def attempt() -> tuple[str, str]:
    """Try the remote now, within bounds; return what was found, and what is wrong with it. Empty without a remote."""
    chosen, name = settings.read(), used.last() or project.name()
    if not chosen.remote:
        return "", ""
    place = shown(chosen.remote)
    try:
        outcome = ask.by_hand("pull", name, load=False)
        # This raises for a key that cannot be read.
        seal.signing()
        fault = _unused(chosen) or outcome.fault or notes.refused_push(name, chosen.remote)
    except (OSError, CacheFault) as error:
        fault = str(error)
    if fault:
        return "", f"{place}: {fault}"
    return (
        f"{place} answers in {outcome.seconds:.2f} s; of {name} it has {outcome.remark or 'no pack'}",
        "",
    )


def _unused(chosen: settings.Settings) -> str:
    """Return why the remote is not asked; empty if it is."""
    if chosen.no_cache >= {*settings.LAYERS}:
        return f"not asked: KCL_NO_CACHE={chosen.no_cache_value}"
    # The nearest folder that is there says whether the cache can be made.
    if os.access(trust.nearest(places.own()), os.W_OK):
        return ""
    return f"not asked: the own cache cannot be written ({places.own()})"
