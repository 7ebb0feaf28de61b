"""`kcl status`: every layer of kcl, whether it is on, where its files lie, and how much is in it."""

from __future__ import annotations

import os
from typing import Any

import click

from kcl import layers
from kcl.cli import output

_HEAD = ("layer", "state", "entries", "bytes", "files")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of layers.")
def status(as_json: bool) -> None:
    """Show every layer: on or off and why, where its files lie, entries, bytes.

    Exits with 0; with 1 where a layer's directory cannot be used.
    """
    rows = [_row(layer) for layer in (layers.generator(), layers.binary())]
    if as_json:
        output.dump(rows)
    else:
        _print(rows)
    raise SystemExit(output.FOUND if any(row["fault"] for row in rows) else output.FINE)


def _row(layer: layers.Layer) -> dict[str, Any]:
    fault, entries = "", 0
    on = not layer.state.startswith("off: ")
    try:
        if layer.disk is not None and on:  # a layer that is off opens no file
            entries = sum(1 for _address in layer.disk.scan())
    except Exception as error:
        fault = str(error)
    return {
        "layer": layer.name,
        "on": on,
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
    cells: list[tuple[str, ...]] = [
        (row["layer"], _state(row), str(row["entries"]), str(row["bytes"]), row["place"]) for row in rows
    ]
    output.table(_HEAD, cells)
    for row in rows:
        for line in [*row["notes"], *([row["fault"]] if row["fault"] else [])]:
            click.echo(f"{row['layer']}: {line}")


def _state(row: dict[str, Any]) -> str:
    if not row["on"]:
        return f"off: {row['reason']}"
    return f"partly off: {row['reason']}" if row["reason"] else "on"
