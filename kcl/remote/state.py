"""The state of the remote, as values and as text, for `kcl status`, `kcl explain` and `kcl doctor`."""

from __future__ import annotations

import os
from typing import Any

from kcl.base import settings
from kcl.base.settings import trust
from kcl.base.text.layout import counted
from kcl.cache import places
from kcl.errors import CacheFault
from kcl.remote import ask, outcomes, project, seal, used
from kcl.remote.outcomes import Outcome
from kcl.remote.stores import shown


def facts() -> dict[str, Any]:
    """Return what is known of the remote for the project that ran last, with lines of text. Does not use the network."""
    options = settings.read()
    pulled, refused, words = Outcome(), list[str](), list[str]()
    # Without a remote no note is read.
    if options.remote:
        name = used.last() or project.name()
        notes = [outcomes.note_name(work, name, options.remote) for work in ("pull", "push")]
        pulled, pushed = (outcomes.read(note) or Outcome() for note in notes)
        refused = [f"{name}: {outcome.fault}" for outcome in (pulled, pushed) if outcome.fault]
        use = "read, and written after a run" if options.remote_write else "read only"
        came = f"{counted(pulled.entries, 'entry', 'entries')} of {name} came"
        took = f"{pulled.bytes} bytes in {pulled.seconds:.1f} s"
        words = [f"remote {shown(options.remote)}: {_unused(options) or use}; {came}, {took}"]
        words += [f"remote: {refusal}" for refusal in refused]
    return {
        "address": shown(options.remote),
        "entries": pulled.entries,
        "bytes": pulled.bytes,
        "seconds": pulled.seconds,
        "refused": refused,
        "words": words,
    }


def attempt() -> tuple[str, str]:
    """Ask the remote now, for a bounded time; return (result, fault), of which one is empty. Both are without a remote."""
    options = settings.read()
    if not options.remote:
        return "", ""
    place, name = shown(options.remote), used.last() or project.name()
    try:
        outcome = ask.by_hand("pull", name, load=False)
        # This raises for a key that cannot be read.
        seal.signing()
        fault = _unused(options) or outcome.fault or outcomes.refused_push(name, options.remote)
    except (OSError, CacheFault) as error:
        fault = str(error)
    if fault:
        return "", f"{place}: {fault}"
    pack = outcome.remark or "no pack"
    return f"{place} answers in {outcome.seconds:.2f} s; of {name} it has {pack}", ""


def _unused(options: settings.Settings) -> str:
    """Return why the remote is not asked; empty if it is."""
    if options.no_cache >= {*settings.LAYERS}:
        return f"not asked: KCL_NO_CACHE={options.no_cache_value}"
    # If the cache does not exist yet, its nearest existing parent decides whether it can be made.
    if os.access(trust.nearest(places.own()), os.W_OK):
        return ""
    return f"not asked: the own cache cannot be written ({places.own()})"
