"""`kcl status`: every layer of kcl and every foreign cache: on or off, its place, its size, and its savings."""

from __future__ import annotations

import math
from typing import Any

import click

from kcl import caches, drivers
from kcl.base import settings
from kcl.base.settings import option, trust
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column
from kcl.build.driver import OpenJobs
from kcl.cache import layers
from kcl.caches import contents, presence
from kcl.caches.table import ROWS
from kcl.cli import output, stats
from kcl.errors import CacheFault
from kcl.inspect import pins, tally
from kcl.inspect.history import journal

_HEAD = (
    Column("layer"),
    Column("state", 0, "words", 18, states=True),
    Column("entries"),
    Column("size"),
    Column("newest", 3),
    Column("hit rate", 1),
    Column("saved", 2),
    Column("directory", 0, "middle", 28),
    Column("decided by", 4),
)
KCL, BELOW, NEIGHBOUR = "kcl", "below", "neighbour"


@click.command()
@click.option("--all", "everything", is_flag=True, help="Every cache, also of drivers that are not on this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object with all layers, pending, late and notes.")
def status(everything: bool, as_json: bool) -> None:
    """Show every layer and every foreign cache.

    For each: on or off and why, entries, size, what was saved, where it lies and why there. The entries are those that
    `kcl ls` lists. A cache of a driver that is not on this machine, or of a neighbour, is shown where it holds
    something, or with --all. Below the table stand programs that are still being completed, and switches of the last
    week that came too late.

    Exits with 0; with 1 where a layer's directory or file cannot be used.
    """
    totals = journal.totals()
    rows = [*(_layer(name, totals) for name in settings.LAYERS), *(_adapter(name) for name in ROWS)]
    pending, late, left = _pending(), journal.late(), _leftovers()
    faults = any(row["fault"] for row in rows if row["kind"] == KCL)
    if as_json:
        said = [{"time": note.time, "driver": note.driver, **note.late._asdict()} for note in late]
        chosen = settings.read()
        found = {"layers": rows, "max_size": chosen.max_size, "leftovers": left, "pins": pins.read()}
        output.dump({**found, "pending": pending, "late": said, "notes": list(chosen.rejected)})
    else:
        output.table(_HEAD, [_cells(row) for row in rows if row["directory"] and (everything or _is_shown(row))])
        for line in _remarks(rows, pending):
            output.say(line)
        if left:
            output.say(f"stores of an earlier kcl take {output.size(left)}: `kcl gc` removes them after a week")
        for note in late:
            output.say(f"{note.driver} ({output.ago(note.time)}): {note.late.words}")
    raise SystemExit(output.FOUND if faults else output.FINE)


def _layer(name: str, totals: dict[str, dict[str, float]]) -> dict[str, Any]:
    layer = layers.unopened(name)
    on = not layer.state.startswith("off: ")
    counted = totals.get(name)
    row = {
        "layer": name,
        "kind": KCL,
        "title": f"kcl's {name} layer",
        "on": on,
        "reason": layer.off(),
        "directory": layer.place,
        "why": option.reason(),
        "entries": 0,
        "bytes": 0,
        "oldest": 0.0,
        "newest": 0.0,
        "version": "",
        "hit_rate": stats.hit_rate(counted) if counted else None,
        "saved": counted["saved"] if counted else 0.0,
        "fault": _fault(layer.place),
        "remark": "",
        "here": True,
    }
    if trust.is_network(layer.place) and name == settings.GENERATOR:
        row["remark"] = "a file for each entry: SQLite is not safe on a network file system"
    if on and not row["fault"]:  # a layer that is off opens no file
        row |= tally.of_layer(name)._asdict()
    return row


def _adapter(name: str) -> dict[str, Any]:
    facts, state, place = ROWS[name], caches.state(name), caches.place(name)
    row = {
        "layer": name,
        "kind": NEIGHBOUR if facts.neighbour else BELOW,
        "title": facts.title,
        "on": state.on,
        "reason": state.reason,
        "directory": place.path,
        "why": place.why,
        "version": contents.version(name),
        "hit_rate": None,
        "saved": None,
        "remark": facts.remark,
        "here": presence.is_here(name),
    }
    return row | contents.measure(name)._asdict()


def _fault(directory: str) -> str:
    try:
        trust.check(directory)
    except (OSError, CacheFault) as error:
        return str(error)
    return ""


def _pending() -> dict[str, Any]:
    """Count the programs that wait for a helper to complete their entry, since when, and say whether a helper runs."""
    try:
        found = drivers.pending()
    except (OSError, CacheFault):
        found = OpenJobs()
    about = {"programs": len(found.here), "since": found.since, "helper": found.helper, "elsewhere": found.devices()}
    return {**about, "words": found.described()}


def _leftovers() -> int:
    """Return the bytes of the stores that an earlier kcl wrote."""
    from kcl.inspect import purge

    return sum(item.size for item in purge.leftovers([], now=math.inf))


def _is_shown(row: dict[str, Any]) -> bool:
    """Tell whether a row is shown by default: it is here, or holds entries, or the user switched it off."""
    return bool(row["bytes"]) or (row["kind"] != NEIGHBOUR and (row["here"] or not row["on"]))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    counted = row["on"] or row["kind"] != KCL
    return (
        row["layer"],
        _state(row),
        str(row["entries"]) if counted else "",
        output.size(row["bytes"]) if counted else "",
        output.ago(row["newest"]),
        stats.percent(row["hit_rate"]),
        stats.saved(row["saved"]) if row["saved"] else "",
        row["directory"],
        row["why"],
    )


def _state(row: dict[str, Any]) -> str:
    if not row["on"]:
        return f"off: {row['reason']}"
    if row["kind"] == KCL and row["fault"]:
        return "memory only"
    return f"partly off: {row['reason']}" if row["reason"] else "on"


def _remarks(rows: list[dict[str, Any]], pending: dict[str, Any]) -> list[str]:
    chosen = settings.read()
    remarks = list(chosen.rejected)
    used = sum(row["bytes"] for row in rows if row["kind"] == KCL)
    if used and chosen.max_size:
        remarks.append(f"kcl's entries take {output.size(used)} of at most {output.size(chosen.max_size)}")
    if held := len(pins.read()):
        remarks.append(
            f"kernels held by {counted(held, 'pin', 'pins')} stay whatever the bound is: `kcl pin` lists them"
        )
    for row in rows:
        said = ("remark", "fault") if row["kind"] == KCL else ("fault",)
        remarks += [f"{row['layer']}: {row[of]}" for of in said if row[of]]
    since = f", the first since {output.ago(pending['since'])}" if pending["since"] else ""
    remarks += [f"{words}{since}" for words in pending["words"]]
    return remarks
