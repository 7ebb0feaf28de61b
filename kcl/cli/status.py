"""`kcl status`: every layer of kcl and every foreign cache: on or off, its place, its size, and its savings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from kcl import foreign
from kcl.base import settings
from kcl.base.settings import option
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column, Columns
from kcl.cache import layers
from kcl.cache.faults import site_words
from kcl.cli import output, stats
from kcl.foreign import Place, contents
from kcl.foreign.table import ROWS
from kcl.inspect import inventory, space
from kcl.inspect.explain import misses
from kcl.inspect.history import journal
from kcl.inspect.history.records import Counters
from kcl.remote import state

KCL, BELOW, NEIGHBOUR = "kcl", "below", "neighbour"
# The values of a row for what is unknown of a cache.
_UNSAID = {
    "version": "",
    "hit_rate": None,
    "saved": None,
    "here": True,
}


@click.command()
@output.flag(
    "--all",
    "everything",
    help="Every cache, also of drivers that are not on this machine.",
)
@output.replies("an object with all layers, pending, late and notes")
def status(everything: bool) -> output.Reply:
    """Show every layer and every foreign cache.

    For each: on or off and why, entries, size, what was saved, where it lies and why there. The entries are those that
    `kcl ls` lists. A cache of a driver that is not on this machine, or of a neighbour, is shown where it holds
    something, or with --all. Below the table stand programs that are still being completed, and switches of the last
    week that came too late.

    Exits with 0; with 1 if a layer's directory or file cannot be used.
    """
    chosen, waiting = settings.read(), misses.find_pending()
    totals = stats.add_up(journal.count_by_day(), ["layer"])
    own = [_describe_layer(name, totals.get((name,))) for name in settings.LAYERS]
    below = [*map(_describe_foreign, ROWS)]
    facts: dict[str, Any] = {
        "layers": [*own, *below],
        "max_size": chosen.max_size,
        "pins": space.read_pins(),
        "sites": [
            _describe_site(root, stores)
            for root, *stores in zip(chosen.site, *map(layers.sites, settings.LAYERS), strict=True)
        ],
        "remote": state.facts(),
        "pending": {
            "programs": len(waiting.here),
            "since": waiting.since,
            "helper": waiting.helper,
            "elsewhere": waiting.devices(),
            "words": waiting.described(),
        },
        "late": journal.find_late(),
        "notes": list(chosen.rejected),
    }

    def show() -> None:
        rows = [row for row in facts["layers"] if row["directory"]]
        output.table(_COLUMNS, [row for row in rows if everything or _is_usual(row)])
        for line in _write_lines(facts):
            output.say(line)

    def as_json() -> dict[str, Any]:
        for row in below:
            name = row["layer"]
            row |= {"version": contents.version(name), "here": contents.is_here(name)}
        return facts

    return as_json, show, any(row["fault"] for row in own)


def _describe_layer(name: str, counters: Counters | None) -> dict[str, Any]:
    layer, faults = layers.unopened(name), inventory.Faults()
    is_on = not layer.state.startswith("off: ")
    # Asked in any case, since it checks the directory. A layer that is off opens no file.
    stores = inventory.find_stores(name, faults)
    content = inventory.measure(name, stores if is_on else [])
    return {
        "layer": name,
        "kind": KCL,
        "title": f"kcl's {name} layer",
        "on": is_on,
        "reason": layer.off(),
        **_describe_place(Place(layer.place, option.reason()), content),
        "hit_rate": stats.compute_hit_rate(counters) if counters else None,
        "saved": counters["saved"] if counters else 0.0,
        "fault": faults[0].reason if faults else content.fault,
    }


def _describe_foreign(name: str) -> dict[str, Any]:
    row, off = ROWS[name], foreign.off(name)
    return {
        "layer": name,
        "kind": NEIGHBOUR if row.neighbour else BELOW,
        "title": row.title,
        "on": not off,
        "reason": off,
        **_describe_place(foreign.place(name), contents.measure(name)),
    }


def _describe_place(place: Place, content: contents.Contents) -> dict[str, Any]:
    return {"directory": place.path, "why": place.why, **content._asdict(), **_UNSAID}


def _describe_site(root: str, stores: Sequence[layers.Files]) -> dict[str, Any]:
    """Describe a site directory: the entries of its stores, one for each layer, or why it is not used."""
    faults: inventory.Faults = []
    entries = [
        entry
        for layer, store in zip(settings.LAYERS, stores, strict=True)
        for entry in inventory.read_store(layer, store, faults)
    ]
    fault = site_words(faults[0].reason) if faults else ""
    if not entries and not faults:
        fault = "it holds nothing for this kcl" if os.path.isdir(root) else "it is missing"
    return {
        "directory": root,
        "entries": sum(entry.is_shown for entry in entries),
        "bytes": sum(entry.size for entry in entries),
        "fault": fault,
    }


def _write_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines below the table."""
    rows, pending = facts["layers"], facts["pending"]
    yield from facts["notes"]
    used, bound = sum(row["bytes"] for row in rows if row["kind"] == KCL), facts["max_size"]
    if used and bound:
        yield f"kcl's entries take {output.format_size(used)} of at most {output.format_size(bound)}"
    if facts["pins"]:
        pins = counted(len(facts["pins"]), "pin", "pins")
        yield f"kernels held by {pins} stay whatever the bound is: `kcl pin` lists them"
    for site in facts["sites"]:
        entries = counted(site["entries"], "entry", "entries")
        usage = f"{entries}, {output.format_size(site['bytes'])}, read only"
        yield f"site {site['directory']}: {site['fault'] or usage}"
    yield from (f"{row['layer']}: {row['fault']}" for row in rows if row["fault"])
    yield from facts["remote"]["words"]
    since = f", the first since {output.format_ago(pending['since'])}" if pending["since"] else ""
    yield from (f"{words}{since}" for words in pending["words"])
    for late in facts["late"]:
        yield f"{late['driver']} ({output.format_ago(late['time'])}): {late['words']}"


def _is_usual(row: Mapping[str, Any]) -> bool:
    """Return True if a cache is shown without --all: its software is here, it has files, or it was switched off."""
    if row["bytes"] or row["kind"] == NEIGHBOUR:
        return bool(row["bytes"])
    is_kcl = row["kind"] == KCL
    is_shown = layers.TABLE[row["layer"]].always if is_kcl else contents.is_here(row["layer"])
    return not row["on"] or is_shown


def _is_counted(row: Mapping[str, Any]) -> bool:
    """Return False for a layer of kcl that is off: its files were not counted, so no number may be shown."""
    return bool(row["on"]) or row["kind"] != KCL


def _write_state(row: Mapping[str, Any]) -> str:
    if not row["on"]:
        return f"off: {row['reason']}"
    if row["kind"] == KCL and not row["bytes"] and row["fault"]:
        return "memory only"
    return f"partly off: {row['reason']}" if row["reason"] else "on"


# A row is the value for `--json`.
_COLUMNS: Columns[Mapping[str, Any]] = (
    (Column("layer"), lambda row: row["layer"]),
    (Column("state", 0, "words", 18), _write_state),
    (Column("entries"), lambda row: str(row["entries"]) if _is_counted(row) else ""),
    (Column("size"), lambda row: output.format_size(row["bytes"]) if _is_counted(row) else ""),
    (Column("newest", 3), lambda row: output.format_ago(row["newest"])),
    (Column("hit rate", 1), lambda row: stats.write_percent(row["hit_rate"])),
    (Column("saved", 2), lambda row: stats.write_saved(row["saved"]) if row["saved"] else ""),
    (Column("directory", 0, "middle", 28), lambda row: row["directory"]),
    (Column("decided by", 4), lambda row: row["why"]),
)
