"""`kcl status`: every layer of kcl, whether it is on, where its files lie, and how much is in it."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from kcl import layers


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of layers.")
def status(as_json: bool) -> None:
    """Show every layer: on or off and why, where its files lie, entries, bytes.

    Exits with 0; with 1 where a layer's directory cannot be used.
    """
    rows = [_row(layer) for layer in (layers.generator(), layers.binary())]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        _print(rows)
    raise SystemExit(1 if any(row["fault"] for row in rows) else 0)


def _row(layer: layers.Layer) -> dict[str, Any]:
    fault, entries = "", 0
    try:
        if layer.disk is not None:
            entries = sum(1 for _address in layer.disk.scan())
    except Exception as error:
        fault = str(error)
    return {
        "layer": layer.name,
        "on": not layer.state.startswith("off: "),
        "reason": layer.off(),
        "place": layer.place,
        "entries": entries,
        "bytes": _size(layer.place),
        "notes": layer.notes,
        "fault": fault,
    }


def _size(path: str) -> int:
    if os.path.isfile(path):
        return os.path.getsize(path)
    total = 0
    for folder, _folders, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                pass  # removed meanwhile
    return total


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("layer", "state", "entries", "bytes", "files"):
        table.add_column(column, justify="right" if column in ("entries", "bytes") else "left", overflow="fold")
    for row in rows:
        state = f"off: {row['reason']}" if not row["on"] else "partly off" if row["reason"] else "on"
        table.add_row(row["layer"], state, str(row["entries"]), str(row["bytes"]), row["place"])
    # Folded at 80 columns a path could not be copied out of a pipe.
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 400)
    console.print(table)
    for row in rows:
        for line in [*row["notes"], *([row["fault"]] if row["fault"] else [])]:
            console.print(f"{row['layer']}: {line}", markup=False)
