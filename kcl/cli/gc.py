"""`kcl gc`: remove what is above the bound on the bytes of the entries."""

from __future__ import annotations

import click

from kcl import settings
from kcl.cli import output
from kcl.inspect import space


def _size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else settings.size(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no number of bytes: write 500M or 2G") from None


@click.command()
@click.option("--max-size", callback=_size, metavar="SIZE", help="This bound instead of KCL_MAX_SIZE: 500M, 2G.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
def gc(max_size: int | None, dry_run: bool) -> None:
    """Remove the entries that were used longest ago, where all take more bytes than the bound.

    The bound is KCL_MAX_SIZE, 2 GiB where it is not set. A tenth of it is free afterwards. A process that ends after a
    miss does the same, once an hour at most.

    Exits with 1 where something could not be removed.
    """
    limit = settings.read().max_size if max_size is None else max_size
    if max_size is None and not limit:
        click.echo("there is no bound: KCL_MAX_SIZE is 0")
        return
    choice = space.chosen(limit)
    click.echo(f"entries take {output.size(choice.before)} of at most {output.size(limit)}")
    if choice.entries:
        if not dry_run:
            space.remove(choice)
        verb = "would be removed: this is a dry run" if dry_run else "are removed"
        click.echo(f"{choice.entries} entries with {output.size(choice.size)} {verb}")
    for refusal in choice.refusals:
        output.complain(f"{refusal.cache}: {refusal.place} is left alone: {refusal.reason}")
    raise SystemExit(output.FOUND if choice.refusals else output.FINE)
