"""`kcl gc`: keep the entries within bounds."""

from __future__ import annotations

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.cli import output
from kcl.inspect import purge, space
from kcl.inspect.purge_items import RemovalRows


@click.command()
@click.option("--max-size", callback=output.parsed(settings.size), metavar="SIZE", help="Bytes: 500M, 2G; 0: no bound.")
@click.option("--max-age", callback=output.parsed(settings.age), metavar="AGE", help="Unused for so long: 30d, 12w.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
def gc(max_size: int | None, max_age: float | None, dry_run: bool) -> None:
    """Remove kernels where the entries are above their bounds, and the stores that an earlier kcl left.

    The bounds are KCL_MAX_SIZE, 2.0 GB where it is not set, and KCL_MAX_AGE, a year. First go the kernels that were
    used longest ago. Pinned kernels stay, see `kcl pin`. A tenth of the bound is free afterwards. The stores of an
    earlier kcl go a week after it wrote there last.

    Exits with 1 where something could not be removed.
    """
    bounds = space.limits()
    if max_size is not None:
        bounds = bounds._replace(size=max_size)
    if max_age is not None:
        bounds = bounds._replace(age=max_age)
    gone, entries, before = space.chosen(bounds)
    limit = f"of at most {output.size(bounds.size)}" if bounds.size else "and have no bound"
    output.say(f"entries take {output.size(before)} {limit}")
    old = list(purge.leftovers(gone.refusals))
    if not dry_run:
        purge.take_away(gone)
        purge.take_away(gone._replace(items=old, rows=RemovalRows((), 0)))
    verb = "would be removed: this is a dry run" if dry_run else "{} removed"
    removed = (
        (entries, "entry", "entries", gone.bytes),
        (len(old), "store of an earlier kcl", "stores of an earlier kcl", sum(item.size for item in old)),
    )
    for count, one, many, size in removed:
        if count:
            output.say(
                f"{counted(count, one, many)} with {output.size(size)} {verb.format('is' if count == 1 else 'are')}"
            )
    if not any(count for count, *_others in removed):
        click.echo("nothing to remove")
    for refusal in gone.refusals:
        output.complain(f"{refusal.cache}: {refusal.place} is left alone: {refusal.reason}")
    raise SystemExit(output.FOUND if gone.refusals else output.FINE)
