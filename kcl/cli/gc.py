"""`kcl gc`: keep the entries within the bound."""

from __future__ import annotations

import click

from kcl.base import settings
from kcl.base.settings import parsers
from kcl.base.text.layout import counted
from kcl.cli import output
from kcl.inspect import purge, space


@click.command()
@click.option("--max-size", metavar="SIZE", help="Bytes: 500M, 2G; 0: no bound.")
@click.option(
    "--site",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="A site directory, in place of the cache.",
)
@output.flag("--dry-run", help="Show what would be removed, and remove nothing.")
@output.replies("what was removed")
def gc(max_size: str | None, site: str | None, dry_run: bool) -> output.Reply:
    """Remove kernels where the entries are above their bound.

    The bound is KCL_MAX_SIZE, 2.0 GB where it is not set. First go the kernels that were used longest ago. Pinned
    kernels stay, see `kcl pin`. A tenth of the bound is free afterwards. Of a site directory, which its owner bounds,
    those go first that were made longest ago.

    Exits with 1 if something could not be removed.
    """
    with output.usage():
        bound = settings.read().max_size if max_size is None else parsers.size(max_size)
    # Measured before anything is removed.
    before, (gone, entries) = space.measure(site), space.choose(bound, site)
    words = "nothing to remove"
    if entries:
        done = f"{'is' if entries == 1 else 'are'} removed"
        verb = "would be removed: this is a dry run" if dry_run else done
        words = (
            f"{counted(entries, 'entry', 'entries')} with {output.format_size(gone.bytes)} {verb}"
        )
    if not dry_run:
        purge.remove(gone, "kcl gc")
    output.complain(*(refusal.words("is left alone") for refusal in gone.refusals))
    limit = f"of at most {output.format_size(bound)}" if bound else "and have no bound"
    return (
        lambda: {
            "before": before,
            "max_size": bound,
            "dry_run": dry_run,
            "entries": entries,
            "bytes": gone.bytes,
            "refusals": [refusal._asdict() for refusal in gone.refusals],
        },
        lambda: output.say(f"entries take {output.format_size(before)} {limit}\n{words}"),
        bool(gone.refusals),
    )
