"""The state of the remote, in facts and in words: for `kcl status`, `kcl explain` and `kcl doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.cache import places
from kcl.errors import CacheFault
from kcl.remote import ask, driver, notes, seal
from kcl.remote.notes import FAILED, LATE, PULLED, REFUSED
from kcl.remote.stores import shown


def facts() -> dict[str, Any]:
    """Return the facts on the remote, its address empty without one; asks nobody."""
    chosen = settings.read()
    folder, found = places.own(places.PACKS), []
    if chosen.remote and os.path.isdir(folder):
        names = [name for name in os.listdir(folder) if "." not in name and name != "last"]
        found = [noted[0] for name in names if (noted := notes.read(name)) is not None]
    return {
        "address": shown(chosen.remote),
        "writes": bool(chosen.remote_write),
        "reason": _unused(chosen) if chosen.remote else "",
        "packs": sum(one.state == PULLED for one in found),
        "entries": sum(one.entries for one in found),
        "bytes": sum(one.bytes for one in found),
        "seconds": sum(one.seconds for one in found),
        "refused": [f"{one.driver}: {one.why}" for one in found if one.state in (FAILED, LATE, REFUSED)],
    }


def lines() -> Iterator[str]:
    """Yield what there is to say about the remote; nothing without one."""
    found = facts()
    if not found["address"]:
        return
    use = found["reason"] or ("read, and written after a run" if found["writes"] else "read only")
    came = f"{counted(found['packs'], 'pack', 'packs')} with {counted(found['entries'], 'entry', 'entries')} came"
    yield f"remote {found['address']}: {use}; {came}, {found['bytes']} bytes in {found['seconds']:.1f} s"
    yield from (f"remote: {words}" for words in found["refused"])


def attempt() -> tuple[str, str]:
    """Try the remote now, within bounds; return what was found, and what is wrong with it. Empty without a remote."""
    chosen = settings.read()
    if not chosen.remote:
        return "", ""
    try:
        reason = _unused(chosen)
        found = ask.by_hand("attempt", notes.last() or driver.name())
        seal.signing()
    except (OSError, CacheFault) as error:
        return "", f"{shown(chosen.remote)}: {error}"
    if reason or found.state == FAILED:
        return "", f"{shown(chosen.remote)}: {reason or found.why}"
    return f"{shown(chosen.remote)} answers in {found.seconds:.2f} s; the pack of {found.driver} is {found.state}", ""


def _unused(chosen: settings.Settings) -> str:
    """Return why the remote is not asked; empty if it is."""
    if chosen.no_cache >= {*settings.LAYERS}:
        return f"not asked: KCL_NO_CACHE={chosen.no_cache_value}"
    place = places.own()
    while not os.path.exists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return "" if os.access(place, os.W_OK) else f"not asked: the own cache cannot be written ({places.own()})"
