"""`kcl explain`: the last misses and bypasses in words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import click

from kcl.choices.tuning import views
from kcl.cli import output
from kcl.errors import meant
from kcl.inspect.explain import misses
from kcl.inspect.history import journal
from kcl.remote import state


@click.command()
@click.argument("kernel", required=False)
@output.flag("--all", "every", help="Every run that is remembered, not the last one only.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=40,
    show_default=True,
    help="The last so many; 0 is all.",
)
@output.replies("a list of look-ups that were no hits")
def explain(kernel: str | None, every: bool, limit: int) -> output.Reply:
    """Say why the last run missed: what differs from the nearest earlier entry.

    KERNEL is the name of a recipe, alone or with its parameters as they are printed; without one all of the last run in
    which anything missed are shown. A miss names the calls and the parts of the key that differ, a bypass its reason
    and what would cure it. Of a recipe with a space it says which row of its table served each size in the last run, or
    which one is nearest. Nothing is run again.

    Exits with 0; with 1 if KERNEL has never missed, or the misses cannot be read.
    """
    history = journal.last_misses()
    chosen = misses.choose(history, kernel, every)
    explained, left_out = misses.explain_last(chosen, history, limit)

    def show() -> None:
        words = write_lines(explained)
        if explained:
            words += [*misses.find_pending().described(), *state.facts()["words"]]
            if left_out:
                words.append(misses.LEFT_OUT.format(left_out))
        elif fault := journal.find_fault():
            output.fail(f"the last misses cannot be read: {fault}")
        else:
            near = meant(kernel or "", {note.event.kernel for note in history})
            of = "" if kernel is None else f" of kernel {kernel!r}"
            words.append(f"no miss{of} is known{near}")
        output.say("\n".join([*words, *views.decisions(kernel)]))

    def as_json() -> list[dict[str, Any]]:
        return [
            {**miss._asdict(), "changes": [change._asdict() for change in miss.changes]}
            for miss in explained
        ]

    return as_json, show, kernel is not None and not explained


def write_lines(explained: Iterable[misses.Miss]) -> list[str]:
    """Write each process with its misses, and how long ago the last of these was."""
    words = list[str]()
    for (driver, process), group in groupby(explained, lambda miss: (miss.driver, miss.process)):
        run = list(group)
        words.append(f"{driver or 'python'}, process {process}, {output.format_ago(run[-1].time)}")
        words += [f"  {line}" for line in misses.write_lines(run)]
    return words
