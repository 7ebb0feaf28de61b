"""`kcl stats`: the look-ups of all processes so far, and the savings of the hits."""

from __future__ import annotations

from collections import Counter

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column
from kcl.cli import output
from kcl.errors import meant
from kcl.inspect import purge
from kcl.inspect.history import journal
from kcl.inspect.history.records import OUTCOMES, SELDOM, Counters, find_left_out, merge

BY = ("layer", "kernel", "day")
# The sort keys of the layers: their order in the line.
_ORDER = {name: f" {place}" for place, name in enumerate(settings.LAYERS)}
_COUNTED = (
    Column("hits"),
    Column("misses"),
    Column("defaults", 4),
    Column("bypassed", 3),
    Column("errors", 2),
    Column("hit rate"),
    Column("spent", 1),
    Column("saved"),
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

    Exits with 0; with 1 where the statistics cannot be read, or removed.
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
    rows = add_up(journal.rows(), names)

    def show() -> None:
        if rows:
            hidden = find_left_out(rows.values())
            output.table(
                [
                    *(Column(name, 0, "end", 20) for name in names),
                    *(column for column in _COUNTED if column.title != hidden),
                ],
                [(*place, *write_cells(row, hidden)) for place, row in rows.items()],
            )
        elif fault := journal.fault():
            output.fail(f"the statistics cannot be read: {fault}")
        else:
            output.say("no look-ups are recorded")
        for reason, count in Counter(
            [reason for _digest, reason, _time in purge.read_removed()]
        ).items():
            output.say(f"{counted(count, 'entry was', 'entries were')} removed: {reason}")

    return (
        lambda: [{**dict(zip(names, place, strict=True)), **row} for place, row in rows.items()],
        show,
        False,
    )


def add_up(rows: journal.Rows, names: list[str]) -> dict[tuple[str, ...], Counters]:
    """Add up rows that have the same layer, kernel or day; those of a layer in the order of the line."""
    order = [("day", "layer", "kernel").index(name) for name in names]
    sums = merge({tuple(place[at] for at in order): row} for place, row in rows.items())
    return dict(sorted(sums.items(), key=lambda pair: [_ORDER.get(word, word) for word in pair[0]]))


def write_cells(row: Counters, hidden: str = "") -> tuple[str, ...]:
    """Write counters as cells of a table, without the hidden one."""
    return (
        *(str(int(row[name])) for name in OUTCOMES if name != hidden),
        write_percent(compute_hit_rate(row)),
        output.format_seconds(row["seconds"]),
        write_saved(row["saved"]),
    )


def compute_hit_rate(row: Counters) -> float | None:
    """Return the share of hits among the look-ups that wanted one; None where there were none."""
    looks = sum(row[name] for name in OUTCOMES if name != SELDOM)
    return row["hits"] / looks if looks else None


def write_percent(share: float | None) -> str:
    """Write a share."""
    return "" if share is None else f"{100 * share:.0f} %"


def write_saved(seconds: float) -> str:
    """Write seconds saved, or lost."""
    return output.format_seconds(seconds) if seconds >= 0 else f"-{output.format_seconds(-seconds)}"
