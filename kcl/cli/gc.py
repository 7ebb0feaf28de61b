"""`kcl gc`: keep the entries within the bound."""

from __future__ import annotations

import click

from kcl.base import settings
from kcl.base.settings import units
from kcl.base.text.layout import counted
from kcl.cli import output
from kcl.cli.output import Reply
from kcl.inspect import purge, space


@click.command()
@click.option("--max-size", callback=output.parsed(units.size), metavar="SIZE", help="Bytes: 500M, 2G; 0: no bound.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@output.replies("what was removed")
def gc(max_size: int | None, dry_run: bool) -> Reply:
    """Remove kernels where the entries are above their bound, and the stores that an earlier kcl left.

    The bound is KCL_MAX_SIZE, 2.0 GB where it is not set. First go the kernels that were used longest ago. Pinned
    kernels stay, see `kcl pin`. A tenth of the bound is free afterwards. The stores of an earlier kcl go a week after
    it wrote there last.

    Exits with 1 where something could not be removed.
    """
    bound = settings.read().max_size if max_size is None else max_size
    gone, entries, before = space.chosen(bound)
    old = purge.Removal(purge.leftovers(), gone.refusals, [])
    limit = f"of at most {output.size(bound)}" if bound else "and have no bound"
    lines = [f"entries take {output.size(before)} {limit}"]
    for count, words, size in (
        (entries, counted(entries, "entry", "entries"), gone.bytes),
        (len(old.items), counted(len(old.items), "store of an earlier kcl", "stores of an earlier kcl"), old.bytes),
    ):
        verb = "would be removed: this is a dry run" if dry_run else f"{'is' if count == 1 else 'are'} removed"
        lines += [f"{words} with {output.size(size)} {verb}"] * bool(count)
    if not dry_run:
        purge.remove(gone, "kcl gc")
        purge.remove(old, "kcl gc")
    output.complain(*(refusal.words("is left alone") for refusal in gone.refusals))
    value = {
        "before": before,
        "max_size": bound,
        "dry_run": dry_run,
        "entries": entries,
        "bytes": gone.bytes,
        "stores": len(old.items),
        "refusals": [refusal._asdict() for refusal in gone.refusals],
    }
    return Reply(
        lambda: value,
        lambda: output.say("\n".join(lines if lines[1:] else [*lines, "nothing to remove"])),
        bool(gone.refusals),
    )
