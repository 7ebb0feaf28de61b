"""`kcl purge`: empty kcl's layers and the caches of other software, after showing the items to remove."""

from __future__ import annotations

import os

import click

from kcl.base.settings import parsers
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column, Columns
from kcl.cli import output
from kcl.inspect import purge as removing
from kcl.inspect.inventory import group
from kcl.inspect.purge import Removal, RemovalItem

# A line is (name of a cache, its items in one place, that place).
_COLUMNS: Columns[tuple[str, list[RemovalItem], str]] = (
    (Column("layer"), lambda line: "kcl" if line[0] == removing.KEPT else line[0]),
    (Column("files"), lambda line: str(sum(item.files for item in line[1]) or "")),
    (Column("size"), lambda line: output.format_size(sum(item.size for item in line[1]))),
    (Column("place", 0, "middle", 30), lambda line: line[2]),
)


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

    Exits with 1 if something was left alone or could not be removed.
    """
    if signed_by is not None and (layer or everything or older or kernel):
        raise click.UsageError("--signed-by stands alone")
    with output.usage():
        age = None if older is None else parsers.age(older)
        wish = layer, everything, age, kernel, signed_by
        plan = removing.carry_out(*wish, dry_run=True)
    if signed_by is not None and not plan.items and not plan.refusals:
        output.fail(f"nothing came under a key {signed_by}; `kcl key list` lists the keys")
    _show(plan)
    output.complain(*(refusal.words("is left alone") for refusal in plan.refusals))
    if plan.items and dry_run:
        click.echo("nothing is removed: this is a dry run")
    elif plan.items and (yes or click.confirm("Remove this?", abort=True)):
        plan = say_removed(plan, removing.carry_out(*wish))
    output.end(bool(plan.refusals))


def say_removed(plan: Removal, removal: Removal) -> Removal:
    """Print how much of a plan was removed, and on stderr what could not be removed; return the removal."""
    # The refusals of the plan have been printed already.
    left = [refusal for refusal in removal.refusals if refusal not in plan.refusals]
    output.complain(*(refusal.words("could not be removed") for refusal in left))
    size = output.format_size(removal.bytes)
    click.echo("all else is removed" if left else f"{size} are removed")
    return removal


def _show(plan: Removal) -> None:
    """Print a line for each directory with the number of its items, or the path if it has only one item."""
    groups = group(
        plan.items,
        lambda item: (item.cache, item.path if item.is_database else os.path.dirname(item.path)),
    )
    if not groups:
        click.echo("there is nothing to remove")
        return
    lines = [(cache, items, _write_place(items)) for (cache, _place), items in groups.items()]
    output.table(_COLUMNS, [*lines, ("all", plan.items, "")])


def _write_place(items: list[RemovalItem]) -> str:
    first = items[0]
    if first.is_database:
        return f"{counted(len(first.addresses), 'row', 'rows')} of {first.path}"
    if len(items) == 1:
        return first.path
    return os.path.join(os.path.dirname(first.path), f"({len(items)} of its items)")
