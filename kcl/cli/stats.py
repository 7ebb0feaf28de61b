"""`kcl stats`: the look-ups of all processes so far, and the savings of the hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column, Columns
from kcl.cli import output
from kcl.errors import meant
from kcl.inspect import purge
from kcl.inspect.history import journal
from kcl.inspect.history.records import OUTCOMES, SELDOM, Counters, merge

BY = ("day", "layer", "kernel")
_SECONDS: Columns[Mapping[str, Any]] = (
    (Column("hit rate"), lambda row: write_percent(compute_hit_rate(row))),
    (Column("spent", 1), lambda row: output.format_seconds(row["seconds"])),
    (Column("saved"), lambda row: write_saved(row["saved"])),
)


@click.command()
@click.option(
    "--by",
    default="layer",
    show_default=True,
    help="What to add up by: layer, kernel, day, or several.",
)
@output.flag("--reset", help="Forget all statistics, the uses of entries and the last misses.")
@output.replies("a list of rows with their counters")
def stats(by: str, reset: bool) -> output.Reply:
    """Show look-ups by outcome, seconds spent in them, and seconds that hits saved, over the last runs.

    Saved is what making an entry took, as it has recorded that, less what loading it took, added up over all hits.
    A process counts when it has ended. The last few hundred processes are remembered.

    Exits with 0; with 1 if the statistics cannot be read, or removed.
    """
    names = [word.strip() for word in by.split(",") if word.strip()]
    unknown = [name for name in names if name not in BY]
    if unknown or not names:
        near = meant(unknown[0], BY) if unknown else ""
        raise click.BadParameter(
            f"{', '.join(unknown) or by!r} is none of {', '.join(BY)}{near}", param_hint="--by"
        )
    if reset:
        journal.reset()
        return list, lambda: click.echo("statistics, uses and last misses are forgotten"), False
    rows = [
        {**dict(zip(names, place, strict=True)), **row}
        for place, row in add_up(journal.count_by_day(), names).items()
    ]

    def show() -> None:
        if rows:
            places = [(Column(name, 0, "end", 20), itemgetter(name)) for name in names]
            output.table([*places, *journal.find_columns(rows), *_SECONDS], rows)
        elif fault := journal.find_fault():
            output.fail(f"the statistics cannot be read: {fault}")
        else:
            output.say("no look-ups are recorded")
        removed = Counter([reason for _digest, reason, _time in purge.read_removed()])
        for reason, count in removed.items():
            output.say(f"{counted(count, 'entry was', 'entries were')} removed: {reason}")

    return lambda: rows, show, False


def add_up(rows: journal.Rows, names: list[str]) -> dict[tuple[str, ...], Counters]:
    """Add up the counters of rows that have the same values for `names`; sort layers as in `settings.LAYERS`."""
    sums = merge(
        {tuple(place[BY.index(name)] for name in names): row} for place, row in rows.items()
    )

    def order(place: tuple[str, ...]) -> list[tuple[int, str]]:
        layers = settings.LAYERS
        return [(layers.index(word) if word in layers else len(layers), word) for word in place]

    return {place: sums[place] for place in sorted(sums, key=order)}


def compute_hit_rate(row: Mapping[str, Any]) -> float | None:
    """Return the share of hits among the look-ups, without calls that ran the defaults; None if there were none."""
    looks = sum(row[name] for name in OUTCOMES if name != SELDOM)
    return row["hits"] / looks if looks else None


def write_percent(share: float | None) -> str:
    """Write a share as a percentage."""
    return "" if share is None else f"{100 * share:.0f} %"


def write_saved(seconds: float) -> str:
    """Write seconds saved, or lost."""
    return output.format_seconds(seconds) if seconds >= 0 else f"-{output.format_seconds(-seconds)}"
