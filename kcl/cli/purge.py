"""`kcl purge`: empty kcl's layers and the caches of other software, after showing the items to remove."""

from __future__ import annotations

import os

import click

from kcl.base.settings import parsers
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column
from kcl.cli import output
from kcl.inspect import purge as removing
from kcl.inspect.inventory import Refusal

_HEAD = (Column("layer"), Column("files"), Column("size"), Column("place", 0, "middle", 30))


@click.command()
@click.argument("layer", nargs=-1)
@output.flag("--all", "everything", help="kcl, loopy, pyopencl and the OpenCL drivers' caches.")
@click.option(
    "--older", metavar="AGE", help="Only what was not made or used for so long: 12h, 30d, 4w."
)
@click.option(
    "--kernel", metavar="NAME", help="Only kcl's entries of that kernel; a shell pattern will do."
)
@click.option(
    "--signed-by",
    metavar="ID",
    help="Only what came from a remote under that key of `kcl key list`.",
)
@output.flag("--dry-run", help="Show what would be removed, and remove nothing.")
@output.flag("--yes", help="Do not ask.")
def purge(
    layer: tuple[str, ...],
    everything: bool,
    older: str | None,
    kernel: str | None,
    signed_by: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove caches: kcl's own, or those that are named.

    LAYER is `kcl` (its layers and all that belongs to them, as where none is named), `generator`, `binary`, `tuning`, or
    the name of another cache, see `kcl status`. Mesa's, which serves the whole desktop, is removed only where it is named.
    Paths and sizes are shown first, and then you are asked. Links are never followed, and nothing is removed that is
    not the cache's own.

    Exits with 1 where something was left alone or could not be removed.
    """
    if signed_by is not None:
        if layer or everything or older or kernel:
            raise click.UsageError("--signed-by stands alone")
        _purge_signed(signed_by, dry_run, yes)
        return
    with output.usage():
        age = None if older is None else parsers.age(older)
        removal = removing.make_plan(layer, everything, age, kernel)
    _show(removal)
    output.complain(*(refusal.words("is left alone") for refusal in removal.refusals))
    if removal.items and dry_run:
        click.echo("nothing is removed: this is a dry run")
    elif removal.items and (yes or click.confirm("Remove this?", abort=True)):
        # A refusal that was shown is not repeated.
        shown = set(removal.refusals)
        removal = removing.purge(*layer, everything=everything, older=age, kernel=kernel)
        left = [refusal for refusal in removal.refusals if refusal not in shown]
        output.complain(*(refusal.words("could not be removed") for refusal in left))
        click.echo(
            "the rest is removed" if left else f"{output.format_size(removal.bytes)} are removed"
        )
    output.end(bool(removal.refusals))


def _purge_signed(signer: str, dry_run: bool, yes: bool) -> None:
    """Remove what came under a key."""
    faults: list[Refusal] = []
    number = sum(signer in signers for _entry, signers in removing.brought(faults))
    output.complain(*faults)
    if not number:
        output.fail(f"nothing came under a key {signer}; `kcl key list` lists the keys")
    words = counted(number, "entry", "entries")
    if dry_run:
        click.echo(f"{words} would be removed: this is a dry run")
    elif yes or click.confirm(f"Remove {words}?", abort=True):
        faults += remove_signed(signer)
    output.end(bool(faults))


def remove_signed(signer: str) -> list[Refusal]:
    """Remove what came under a key, and say how much; complain of what could not be removed, and return that."""
    number, refusals = removing.remove_brought(signer)
    output.complain(*(refusal.words("could not be removed") for refusal in refusals))
    output.say(f"{counted(number, 'entry', 'entries')} removed")
    return refusals


def _show(removal: removing.Removal) -> None:
    """Print a line for each directory, or for the item where it is the only one in its directory."""
    groups: dict[tuple[str, str], list[removing.RemovalItem]] = {}
    for item in removal.items:
        groups.setdefault(
            (item.cache, item.path if item.is_database else os.path.dirname(item.path)), []
        ).append(item)
    cells = []
    for (cache, folder), group in groups.items():
        place = (
            group[0].path
            if len(group) == 1
            else os.path.join(folder, f"({len(group)} of its items)")
        )
        if group[0].is_database:
            place = f"{counted(len(group[0].addresses), 'row', 'rows')} of {place}"
        cells.append(
            (
                "kcl" if cache == removing.KEPT else cache,
                str(sum(item.files for item in group) or ""),
                output.format_size(sum(item.size for item in group)),
                place,
            )
        )
    if not cells:
        click.echo("there is nothing to remove")
        return
    output.table(
        _HEAD, [*cells, ("all", str(removal.files), output.format_size(removal.bytes), "")]
    )
