"""`kcl verify`: check that the entries are unchanged."""

from __future__ import annotations

import click

from kcl.base import settings
from kcl.cache.stores import digest_of
from kcl.cli import output
from kcl.errors import DamagedEntry
from kcl.inspect import inventory
from kcl.inspect.inventory import Faults, Refusal

_CURE = "kcl sets a damaged entry aside when it is next asked for, and makes it anew"
_CURE_OF_POCL = "kcl replaces PoCL's files from their entries when they are next asked for; kcl purge pocl removes the rest"


@click.command()
@output.flag("--headers", help="Read the headers alone: a quick look.")
@output.replies("what was checked, and what is damaged")
def verify(headers: bool) -> output.Reply:
    """Check the entries of all layers.

    Every byte is read against the digest over the whole, as each hit does. With --headers only the digest of every
    header, the lengths and the keys are checked, which finds torn and misplaced entries at once.

    PoCL's own cache is checked too: files that are empty, cut short or something else are damaged.

    Exits with 0; with 1 if an entry is damaged.
    """
    faults: Faults = []
    checked = {layer: _check(layer, headers, faults) for layer in settings.LAYERS}
    faults += inventory.find_damaged_below()
    return (
        lambda: {
            "checked": checked,
            "whole": not headers,
            "damaged": [
                dict(zip(("layer", "place", "reason"), fault, strict=True)) for fault in faults
            ],
        },
        lambda: _show(checked, faults),
        bool(faults),
    )


def _check(layer: str, headers: bool, faults: Faults) -> int:
    """Check the entries of a layer; return their number."""
    sound, before = 0, len(faults)
    for entry in inventory.entries(layer, faults=faults, all_rows=True):
        if not headers:
            # None is an entry that was removed in between, or a fault.
            sound += entry.read(faults) is not None
            continue
        try:
            if digest_of(entry.address) != entry.key.digest:
                raise DamagedEntry(f"the entry is that of another key: {entry.key.digest}")
            sound += 1
        except DamagedEntry as error:
            faults.append(Refusal(layer, entry.place, str(error)))
    # Entries that the listing could not read count as checked.
    return sound + len(faults) - before


def _show(checked: dict[str, int], faults: Faults) -> None:
    counts = ", ".join(f"{layer} layer {count}" for layer, count in checked.items())
    lines = [f"entries checked: {counts}; damaged: {len(faults)}", *map(str, faults)]
    lines += {_CURE_OF_POCL if fault.cache == "pocl" else _CURE: None for fault in faults}
    output.say("\n".join(lines))
