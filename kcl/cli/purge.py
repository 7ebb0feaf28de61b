"""`kcl purge`: empty kcl's layers and the caches of others, after showing what would go."""

from __future__ import annotations

import os
import re
import sqlite3
import time

import click

from kcl import caches
from kcl.cache import places
from kcl.cli import completion, output
from kcl.errors import CacheFault
from kcl.inspect import removal

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_HEAD = ("layer", "files", "size", "place")


def _age(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Read a number and a unit as seconds: 90min, 12h, 30d, 4w."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d|w)", value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no age: write 90min, 12h, 30d or 4w")
    return float(found[1]) * _UNITS[found[2]]


@click.command()
@click.argument("layer", nargs=-1, shell_complete=completion.layers)
@click.option("--all", "everything", is_flag=True, help="kcl, loopy, pyopencl and the OpenCL drivers' caches.")
@click.option("--older", callback=_age, metavar="AGE", help="Only what was not made or used for so long: 12h, 30d, 4w.")
@click.option(
    "--kernel",
    metavar="NAME",
    shell_complete=completion.kernels,
    help="Only kcl's entries of that kernel; a shell pattern will do.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(
    layer: tuple[str, ...], everything: bool, older: float | None, kernel: str | None, dry_run: bool, yes: bool
) -> None:
    """Remove caches: kcl's own, or those that are named.

    LAYER is `kcl` (both layers and all that belongs to them, as where none is named), `generator`, `binary`, or the
    name of another cache, see `kcl status`. Caches of other compilers and Mesa's are removed only where they are
    named. Paths and sizes are shown first, and then you are asked. Links are never followed, and nothing is removed
    that is not the cache's own.

    Exits with 1 where something was left alone or could not be removed.
    """
    names = _names(layer, everything, kernel)
    refusals: list[removal.Refusal] = []
    items, rows = _chosen(names, older, kernel, refusals)
    _show(items, rows)
    for refusal in refusals:
        output.complain(f"{refusal.cache}: {refusal.place} is left alone: {refusal.reason}")
    if items or rows.addresses:
        if dry_run:
            click.echo("nothing is removed: this is a dry run")
        elif yes or click.confirm("Remove this?", abort=True):
            _remove(names, items, rows, refusals)
    raise SystemExit(output.FOUND if refusals else output.FINE)


def _names(layer: tuple[str, ...], everything: bool, kernel: str | None) -> list[str]:
    known = ("kcl", "generator", "binary", *caches.names())
    for name in layer:
        if name not in known:
            raise click.UsageError(f"{name!r} is no layer: take one of {', '.join(known)}")
    if kernel is not None:
        if everything or not set(layer) <= {"generator", "binary"}:
            raise click.UsageError("--kernel works on the layers generator and binary: other caches know no kernel")
        return list(layer or ("generator", "binary"))
    named = [own for name in layer or (() if everything else ("kcl",)) for own in _meant(name)]
    return list(dict.fromkeys([*(removal.everything() if everything else ()), *named]))


def _meant(name: str) -> tuple[str, ...]:
    return removal.OWN if name == "kcl" else (name,)


def _chosen(
    names: list[str], older: float | None, kernel: str | None, refusals: list[removal.Refusal]
) -> tuple[list[removal.Item], removal.Rows]:
    """Return what is to go: whole directories, or, where it is to be chosen, entries."""
    before = None if older is None else time.time() - older
    layers = [name for name in names if name in ("generator", "binary")]
    rows = removal.Rows((), 0)
    found: list[removal.Item] = []
    if layers and (kernel is not None or before is not None):
        found, rows = removal.entries(layers, kernel, before, refusals)
        names = [name for name in names if name not in layers]
    for name in names:
        found += removal.items(name, refusals, before)
    return found, rows


def _show(items: list[removal.Item], rows: removal.Rows) -> None:
    """Print a line for each directory, or for each item where it is one in its directory."""
    groups: dict[tuple[str, str], list[removal.Item]] = {}
    for item in items:
        groups.setdefault((item.cache, item.folder), []).append(item)
    cells = []
    for (cache, folder), group in groups.items():
        place = group[0].path if len(group) == 1 else os.path.join(folder, f"({len(group)} of its items)")
        files, size = sum(item.files for item in group), sum(item.size for item in group)
        cells.append(("kcl" if cache == "kept" else cache, str(files), output.size(size), place))
    if rows.addresses:
        cells.append(("generator", "", output.size(rows.size), f"{len(rows.addresses)} rows"))
    if not cells:
        click.echo("there is nothing to remove")
        return
    files, size = sum(item.files for item in items), sum(item.size for item in items) + rows.size
    output.table(_HEAD, [*cells, ("all", str(files), output.size(size), "")])


def _remove(names: list[str], items: list[removal.Item], rows: removal.Rows, refusals: list[removal.Refusal]) -> None:
    """Remove what was shown, kcl's work in the background first; add to `refusals` what could not be removed."""
    if set(names) & set(removal.OWN):
        if not removal.quiet(places.own()):
            output.complain("kcl's helper process still works: what it makes may reappear")
        for machine in removal.elsewhere():
            output.complain(f"jobs of the machine {machine} are removed; its helper may still write what it makes")
    for item in items:
        try:
            removal.remove(item)
        except OSError as error:
            refusals.append(removal.Refusal(item.cache, item.path, str(error)))
            output.complain(f"{item.cache}: {item.path} could not be removed: {error}")
    if rows.addresses:
        try:
            removal.remove_rows(rows)
        except (OSError, sqlite3.Error, CacheFault) as error:
            refusals.append(removal.Refusal("generator", "rows", str(error)))
            output.complain(f"generator: rows could not be removed: {error}")
    removal.sweep()
