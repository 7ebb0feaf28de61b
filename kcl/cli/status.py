"""`kcl status`: every layer of kcl and every foreign cache: on or off, its place, its size, and its savings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from kcl import foreign
from kcl.base import settings
from kcl.base.settings import option, trust
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column
from kcl.cache import layers
from kcl.cache.faults import site_words
from kcl.cli import output, stats
from kcl.errors import CacheFault
from kcl.foreign import Place, contents
from kcl.foreign.table import ROWS
from kcl.inspect import inventory, space
from kcl.inspect.explain import misses
from kcl.inspect.history import journal
from kcl.inspect.history.records import Counters
from kcl.remote import state

_HEAD = (
    Column("layer"),
    Column("state", 0, "words", 18),
    Column("entries"),
    Column("size"),
    Column("newest", 3),
    Column("hit rate", 1),
    Column("saved", 2),
    Column("directory", 0, "middle", 28),
    Column("decided by", 4),
)
KCL, BELOW, NEIGHBOUR = "kcl", "below", "neighbour"
# What a row of the table says of a cache that does not say it.
_ROW = {
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

    Exits with 0; with 1 where a layer's directory or file cannot be used.
    """
    totals, waiting = stats.add_up(journal.rows(), ["layer"]), misses.find_pending()
    own = [_describe_layer(name, totals.get((name,))) for name in settings.LAYERS]
    site_stores = zip(*map(layers.sites, settings.LAYERS), strict=True)
    facts = {
        "layers": [*own, *map(_describe_foreign, ROWS)],
        "max_size": settings.read().max_size,
        "pins": space.read_pins(),
        "sites": [*map(_describe_site, settings.read().site, site_stores)],
        "remote": state.facts(),
        "pending": {
            "programs": len(waiting.here),
            "since": waiting.since,
            "helper": waiting.helper,
            "elsewhere": waiting.devices(),
            "words": waiting.described(),
        },
        "late": [
            {name: value for name, value in note.items() if name != "program"}
            for note in journal.late()
        ],
        "notes": list(settings.read().rejected),
    }
    return (lambda: facts, lambda: _show(facts, everything), any(row["fault"] for row in own))


def _describe_layer(name: str, counters: Counters | None) -> dict[str, Any]:
    layer, fault = layers.unopened(name), ""
    on = not layer.state.startswith("off: ")
    try:
        trust.check(layer.place)
    except (OSError, CacheFault) as error:
        fault = str(error)
    # A layer that is off opens no file.
    stores = inventory.find_stores(name, []) if on and not fault else []
    content = contents.add_up([inventory.measure_store(name, store) for store in stores])
    return {
        "layer": name,
        "kind": KCL,
        "title": f"kcl's {name} layer",
        "on": on,
        "reason": layer.off(),
        **_describe_place(Place(layer.place, option.reason()), content),
        "hit_rate": stats.compute_hit_rate(counters) if counters else None,
        "saved": counters["saved"] if counters else 0.0,
        "fault": fault or content.fault,
    }


def _describe_foreign(name: str) -> dict[str, Any]:
    facts, off = ROWS[name], foreign.off(name)
    return {
        "layer": name,
        "kind": NEIGHBOUR if facts.neighbour else BELOW,
        "title": facts.title,
        "on": not off,
        "reason": off,
        **_describe_place(foreign.place(name), contents.measure(name)),
        "version": contents.version(name),
        "here": contents.is_here(name),
    }


def _describe_place(place: Place, content: contents.Contents) -> dict[str, Any]:
    return {"directory": place.path, "why": place.why, **content._asdict(), **_ROW}


def _describe_site(root: str, stores: Sequence[layers.Files]) -> dict[str, Any]:
    """Describe a site directory: the entries of its stores, or why it is not used."""
    faults: list[inventory.Refusal] = []
    entries = [
        entry
        for layer, store in zip(settings.LAYERS, stores, strict=True)
        for entry in inventory.read_store(layer, store, faults)
    ]
    empty = "it holds nothing for this kcl" if os.path.isdir(root) else "it is missing"
    fault = site_words(faults[0].reason) if faults else "" if entries else empty
    return {
        "directory": root,
        "entries": sum(entry.is_shown for entry in entries),
        "bytes": sum(entry.size for entry in entries),
        "fault": fault,
    }


def _show(facts: dict[str, Any], everything: bool) -> None:
    rows, pending = facts["layers"], facts["pending"]
    placed = [row for row in rows if row["directory"]]
    output.table(_HEAD, [_write_cells(row) for row in placed if everything or _is_usual(row)])
    lines = list(facts["notes"])
    used = sum(row["bytes"] for row in rows if row["kind"] == KCL)
    if used and facts["max_size"]:
        lines.append(
            f"kcl's entries take {output.format_size(used)} of at most {output.format_size(facts['max_size'])}"
        )
    if facts["pins"]:
        lines.append(
            f"kernels held by {counted(len(facts['pins']), 'pin', 'pins')} stay whatever the bound is: `kcl pin` lists them"
        )
    for site in facts["sites"]:
        usage = f"{counted(site['entries'], 'entry', 'entries')}, {output.format_size(site['bytes'])}, read only"
        lines.append(f"site {site['directory']}: {site['fault'] or usage}")
    lines += [f"{row['layer']}: {row['fault']}" for row in rows if row["fault"]]
    lines += facts["remote"]["words"]
    since = f", the first since {output.format_ago(pending['since'])}" if pending["since"] else ""
    lines += [f"{words}{since}" for words in pending["words"]]
    lines += [
        f"{late['driver']} ({output.format_ago(late['time'])}): {late['words']}"
        for late in facts["late"]
    ]
    for line in lines:
        output.say(line)


def _is_usual(row: dict[str, Any]) -> bool:
    """Return True for a cache that is here, or holds something, or that the user switched off."""
    if row["bytes"] or row["kind"] == NEIGHBOUR:
        return bool(row["bytes"])
    is_seldom = row["kind"] == KCL and not layers.TABLE[row["layer"]].always
    return not row["on"] or (row["here"] and not is_seldom)


def _write_cells(row: dict[str, Any]) -> tuple[str, ...]:
    is_counted = row["on"] or row["kind"] != KCL
    state = f"partly off: {row['reason']}" if row["reason"] else "on"
    if not row["on"]:
        state = f"off: {row['reason']}"
    elif row["kind"] == KCL and not row["bytes"] and row["fault"]:
        state = "memory only"
    return (
        row["layer"],
        state,
        str(row["entries"]) if is_counted else "",
        output.format_size(row["bytes"]) if is_counted else "",
        output.format_ago(row["newest"]),
        stats.write_percent(row["hit_rate"]),
        stats.write_saved(row["saved"]) if row["saved"] else "",
        row["directory"],
        row["why"],
    )
