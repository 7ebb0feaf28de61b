"""`kcl status`: every layer of kcl and every foreign cache: on or off, where, how much is in it, what it saved."""

from __future__ import annotations

import os
from typing import Any

import click

from kcl import caches, settings
from kcl.cache import layers, places
from kcl.cache.stores.directory import Directory
from kcl.caches import contents
from kcl.cli import output, stats
from kcl.errors import CacheFault
from kcl.inspect.history import journal, notes
from kcl.inspect.inventory import tally
from kcl.settings import trust

_HEAD = ("layer", "state", "entries", "size", "newest", "hit rate", "saved", "directory")
KCL, BELOW, NEIGHBOUR = "kcl", "below", "neighbour"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object with layers, pending, late and notes.")
def status(as_json: bool) -> None:
    """Show every layer and every foreign cache: on or off and why, where and why there, entries, size, what was saved.

    Caches beside those of OpenCL are shown where they hold something. Below the table stand programs that are still
    being completed, and switches of the last week that came too late.

    Exits with 0; with 1 where a layer's directory or file cannot be used.
    """
    totals = journal.totals()
    rows = [*(_layer(name, totals) for name in settings.LAYERS), *(_adapter(name) for name in caches.names())]
    pending, late = _pending(), notes.read()
    faults = any(row["fault"] for row in rows if row["kind"] == KCL)
    if as_json:
        said = [{"time": note.time, "driver": note.driver, **note.late._asdict()} for note in late]
        chosen = settings.read()
        found = {"layers": rows, "max_size": chosen.max_size, "pending": pending, "late": said}
        output.dump({**found, "notes": list(chosen.rejected)})
    else:
        _print(rows)
        for line in _remarks(rows, pending):
            click.echo(line)
        for note in late:
            click.echo(f"{note.driver} ({output.ago(note.time)}): {note.late.words}")
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
        "why": settings.reason(),
        "entries": 0,
        "bytes": 0,
        "oldest": 0.0,
        "newest": 0.0,
        "version": "",
        "hit_rate": _hit_rate(counted),
        "saved": counted["saved"] if counted else 0.0,
        "fault": _fault(layer.place),
        "remark": "",
    }
    if trust.is_network(layer.place) and name == settings.GENERATOR:
        row["remark"] = "a file for each entry: SQLite is not safe on a network file system"
    if on and not row["fault"]:  # a layer that is off opens no file
        row |= _counted(_own(name, layer.place))
    return row


def _own(name: str, directory: str) -> contents.Contents:
    """Count a layer's entries: the rows and files of all Python versions."""
    if name == settings.BINARY:
        return tally.of(Directory(directory))
    names = os.listdir(directory) if os.path.isdir(directory) else []
    mine = [os.path.join(directory, each) for each in names if each.startswith(places.DICTIONARY + places.GENERATED)]
    rows = contents.of([path for path in mine if not os.path.isdir(path)], "rows")
    files = tally.of(Directory(places.generated()))
    oldest = min(filter(None, (rows.oldest, files.oldest)), default=0.0)
    fault = rows.fault or files.fault
    return contents.Contents(
        rows.entries + files.entries, rows.size + files.size, oldest, max(rows.newest, files.newest), fault
    )


def _adapter(name: str) -> dict[str, Any]:
    facts, state, place = caches.row(name), caches.state(name), caches.place(name)
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
    }
    return row | _counted(contents.measure(name))


def _counted(found: contents.Contents) -> dict[str, Any]:
    return {
        "entries": found.entries,
        "bytes": found.size,
        "oldest": found.oldest,
        "newest": found.newest,
        "fault": found.fault,
    }


def _hit_rate(row: dict[str, float] | None) -> float | None:
    """Return the share of hits among all look-ups so far, None where there were none."""
    asked = sum(row[name] for name in ("hits", "misses", "bypassed", "errors")) if row else 0
    return row["hits"] / asked if row and asked else None


def _fault(directory: str) -> str:
    try:
        trust.check(directory)
    except (OSError, CacheFault) as error:
        return str(error)
    return ""


def _pending() -> dict[str, Any]:
    """Say how many programs wait for their entry to be completed, since when, and whether a helper is at it."""
    folder = places.own(places.PENDING)
    if not os.path.isdir(folder):
        return {"programs": 0, "since": 0.0, "helper": False}
    from kcl.drivers.pocl.jobs import Queue

    queue = Queue(places.own())
    try:
        jobs = queue.jobs()
        return {"programs": len(jobs), "since": jobs[0].written if jobs else 0.0, "helper": queue.has_helper()}
    except (OSError, CacheFault):
        return {"programs": 0, "since": 0.0, "helper": False}


def _print(rows: list[dict[str, Any]]) -> None:
    shown = [row for row in rows if row["kind"] != NEIGHBOUR or row["bytes"]]
    output.table(_HEAD, [_cells(row) for row in shown if row["directory"]])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    counted = row["on"] or row["kind"] != KCL
    rate = "" if row["hit_rate"] is None else f"{100 * row['hit_rate']:.0f} %"
    return (
        row["layer"],
        _state(row),
        str(row["entries"]) if counted else "",
        output.size(row["bytes"]) if counted else "",
        output.ago(row["newest"]),
        rate,
        stats.saved(row["saved"]) if row["saved"] else "",
        f"{row['directory']} ({row['why']})",
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
    for row in rows:
        said = ("remark", "fault") if row["kind"] == KCL else ("fault",)
        remarks += [f"{row['layer']}: {row[of]}" for of in said if row[of]]
    if pending["programs"]:
        who = "a helper is at it" if pending["helper"] else "the next run starts a helper"
        since = output.ago(pending["since"])
        remarks.append(f"{pending['programs']} programs are still being completed, the first asked for {since}: {who}")
    return remarks
