"""`kcl verify`: check that the entries are unchanged."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from kcl import drivers
from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.cache.stores.base import digest_of
from kcl.cache.verified import entry_at
from kcl.caches import contents
from kcl.cli import output
from kcl.cli.ls import in_words
from kcl.errors import DamagedEntry
from kcl.inspect import inventory
from kcl.inspect.inventory import Fault

_CURE = "kcl sets a damaged entry aside when it is next asked for, and makes it anew"
_CURE_OF_POCL = (
    "kcl replaces PoCL's files from their entries when they are next asked for; kcl purge pocl removes the rest"
)


@click.command()
@click.option("--all", "whole", is_flag=True, help="Read every byte, not the headers alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what was checked, and what is damaged.")
def verify(whole: bool, as_json: bool) -> None:
    """Check the entries of both layers.

    Without options the digest of every header, the lengths and the keys are checked, which finds torn and misplaced
    entries at once. --all reads every byte against the digest over the whole, as each hit does.

    PoCL's own cache is checked too: files that are empty, cut short or something else are damaged. With --all the files
    of each program that has an entry are compared with the entry; where they differ, the next run replaces them.

    Exits with 0; with 1 where an entry is damaged.
    """
    faults: list[Fault] = []
    checked = {layer: _whole(layer, faults) if whole else _headers(layer, faults) for layer in settings.LAYERS}
    faults += [Fault("pocl", *found) for driver in drivers.every() for found in driver.damaged(contents.files("pocl"))]
    differing = _differing() if whole else []
    if as_json:
        said: dict[str, Any] = {"checked": checked, "whole": whole, "damaged": [fault._asdict() for fault in faults]}
        output.dump({**said, "differing": differing})
    else:
        _print(checked, faults, differing)
    raise SystemExit(output.FOUND if faults else output.FINE)


def _headers(layer: str, faults: list[Fault]) -> int:
    """Check headers and keys; returns the number of entries."""
    sound, before = 0, len(faults)
    for one in inventory.entries(layer, faults=faults, all_rows=True):
        if digest_of(one.address) == one.key.digest:
            sound += 1
        else:
            faults.append(Fault(layer, one.address, f"the entry is that of another key: {one.key.digest}"))
    return sound + len(faults) - before


def _whole(layer: str, faults: list[Fault]) -> int:
    """Check every byte; returns the number of entries."""
    sound, before = 0, len(faults)
    for place, address, blob in inventory.blobs(layer, faults):
        try:
            entry_at(address, blob)
            sound += 1
        except (DamagedEntry, ValueError) as error:
            faults.append(Fault(layer, place, str(error)))
    return sound + len(faults) - before


def _differing() -> list[str]:
    """Return the files of PoCL's cache whose bytes differ from those in their entries."""
    found: set[str] = set()
    for _place, address, blob in inventory.blobs(settings.BINARY, []):
        with suppress(DamagedEntry, ValueError):
            entry = entry_at(address, blob)
            if "binary" in entry.parts:
                found.update(path for driver in drivers.every() for path in driver.differing(entry))
    return sorted(found)


def _print(checked: dict[str, int], faults: list[Fault], differing: list[str]) -> None:
    counts = ", ".join(f"{layer} layer {count}" for layer, count in checked.items())
    output.say(f"entries checked: {counts}; damaged: {len(faults)}")
    for fault in faults:
        output.say(in_words(fault))
    if any(fault.layer != "pocl" for fault in faults):
        output.say(_CURE)
    if any(fault.layer == "pocl" for fault in faults):
        output.say(_CURE_OF_POCL)
    if differing:
        one, many = "file is as PoCL wrote it", "files are as PoCL wrote them"
        output.say(f"PoCL's cache: {counted(len(differing), one, many)}; the next run puts what the entries hold there")
