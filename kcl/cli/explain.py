"""`kcl explain`: the last misses and bypasses in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kcl.cli import completion, output
from kcl.inspect.explain import misses
from kcl.inspect.explain.misses import Told
from kcl.inspect.history import journal
from kcl.inspect.history.journal import Missed


@click.command()
@click.argument("kernel", required=False, shell_complete=completion.missed)
@click.option("--all", "every", is_flag=True, help="Every run that is remembered, not the last one only.")
@click.option("--limit", type=click.IntRange(0), default=40, show_default=True, help="The last so many; 0 is all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of look-ups that were no hits.")
def explain(kernel: str | None, every: bool, limit: int, as_json: bool) -> None:
    """Say why the last run missed: what differs from the nearest earlier entry.

    KERNEL is the name of a recipe; without one all of the last run in which anything missed are shown. A miss names
    the calls and the parts of the key that differ, a bypass its reason and what would cure it. Nothing is run again.

    Exits with 0; with 1 where KERNEL has never missed, or the misses cannot be read.
    """
    history = journal.last_misses()
    asked = chosen(history, kernel, every)
    left_out = len(asked) - limit if limit > 0 else 0
    found = misses.told(asked[max(0, left_out) :], history)
    if as_json:
        output.dump([described(one) for one in found])
    elif not found and (fault := journal.fault()):
        output.complain(f"the last misses cannot be read: {fault}")
        raise SystemExit(output.FOUND)
    elif not found:
        click.echo("no miss is known" if kernel is None else f"no miss of kernel {kernel!r} is known")
    else:
        click.echo("\n".join(lines(found)))
        if left_out > 0:
            click.echo(f"{left_out} earlier ones are left out: kcl explain --limit 0")
    raise SystemExit(output.FOUND if kernel is not None and not found else output.FINE)


def chosen(history: Sequence[Missed], kernel: str | None, every: bool) -> list[Missed]:
    """Return the look-ups to explain: those of a kernel, of the last run that has any."""
    asked = [one for one in history if kernel in (None, one.kernel)]
    return asked if every else [one for one in asked if one.process == asked[-1].process]


def lines(found: Sequence[Told]) -> list[str]:
    """Write runs, and what missed in each."""
    said = []
    process = None
    for one in found:
        missed = one.missed
        if missed.process != process:
            process = missed.process
            said.append(f"{missed.driver or 'python'}, process {missed.pid}, {output.ago(missed.time)}")
        said += [f"  {line}" for line in misses.lines(one)]
    return said


def described(one: Told) -> dict[str, Any]:
    """Write one look-up as JSON."""
    missed, times, explanation = one
    nearest = explanation.nearest if explanation is not None else None
    return {
        "time": missed.time,
        "driver": missed.driver,
        "process": missed.pid,
        "layer": missed.layer,
        "kernel": missed.kernel,
        "outcome": missed.outcome,
        "times": times,
        "reason": missed.reason,
        "key": missed.key.digest if missed.key is not None else None,
        "nearest": nearest.key.digest if nearest is not None else None,
        "changes": [change._asdict() for change in explanation.changes] if explanation is not None else [],
    }
