"""`kcl save`: write entries of the cache into one file."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import click

from kcl import bundle
from kcl.base import settings
from kcl.bundle import contents
from kcl.bundle.info import CacheInfo
from kcl.cli import output
from kcl.errors import meant
from kcl.inspect import flush, inventory
from kcl.inspect.kernels import find_last_run


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.argument("kernel", nargs=-1)
@output.layers
@output.flag("--last-run", help="Only what the last run of a program used.")
def save(file: str, kernel: tuple[str, ...], layer_names: tuple[str, ...], last_run: bool) -> None:
    """Save entries of the cache in FILE, for `kcl load` or `kcl.load_artifacts` on another machine.

    KERNEL is a name, or a pattern such as 'mat*': without one the whole cache is saved. The code of a kernel comes with
    its programs, and with the rows that lead to it. Entries that wait for their binary are completed first, as by
    `kcl flush`. Programs with debug information stay at home. What was measured for recipes with a space comes too.

    Exits with 0; with 1 if nothing was saved, or an entry cannot be read or is not complete.
    """
    complete = flush()
    faults: inventory.Faults = []
    rows = list(inventory.entries(faults=faults, all_rows=True))
    entries, info = contents.Contents(), CacheInfo()
    for row in _choose(rows, kernel, last_run) if kernel or last_run else rows:
        if row.layer in (layer_names or settings.LAYERS) and (entry := row.read(faults)):
            contents.add(entries, row.layer, row.address, entry, info)
    if entries:
        bundle.write(file, entries, info)
        output.say(f"{file}:\n{info}")
    else:
        click.echo(
            "no entries" + "".join([meant(name, {row.kernel for row in rows}) for name in kernel])
        )
    output.complain(*faults)
    output.end(not (entries and complete) or bool(faults))


def _choose(
    rows: Sequence[inventory.ListedEntry], kernels: Sequence[str], last_run: bool
) -> list[inventory.ListedEntry]:
    """Return the entries of kernels, or of the last run, with their partners and the rows that lead to them."""
    run = find_last_run() if last_run else None
    ran = {stored.digest for row in (run.rows if run else ()) for stored in row.stored}
    shown = [row for row in rows if row.is_shown]
    named = {
        row.digest: row.program
        for row in shown
        if any(fnmatch.fnmatchcase(row.kernel, name) for name in kernels or "*")
        and (not last_run or row.digest in ran)
    }
    # Code and its programs are saved together. The entries of a run have both already.
    programs = set() if last_run else {*named.values()} - {""}
    chosen = [row for row in shown if row.digest in named or row.program in programs]
    code = [row for row in chosen if row.layer == settings.GENERATOR]
    led = {digest for row in code for digest in inventory.find_leading(row.key)}
    sites = {row.recipe.site.partition(":")[0] for row in code}
    return chosen + [
        row
        for row in rows
        if (row.kind == inventory.BASE and row.digest in led)
        or (row.kind == inventory.FACTS and row.digest in named)
        or (row.kind == inventory.PROOFS and row.kernel in sites)
    ]
