"""`kcl flush`: complete the entries that wait for it."""

from __future__ import annotations

import os

import click

from kcl.base.text.layout import counted
from kcl.cache import places
from kcl.cli import output
from kcl.inspect import report


@click.command()
@click.option(
    "--timeout",
    "--seconds",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="Wait no longer: seconds.",
)
def flush(timeout: float) -> None:
    """Complete the entries that wait for it, and wait until that is done.

    On PoCL a helper process completes entries in the background, also after a run. Call this before you copy the cache,
    or before the machine is taken away.

    Exits with 0; with 1 where programs are left.
    """
    done = report.flush(timeout)
    click.echo(said(left()))
    raise SystemExit(output.FINE if done else output.FOUND)


def said(left: int) -> str:
    """Say how many programs are left."""
    return f"{counted(left, 'program is', 'programs are')} still being completed" if left else "every entry is complete"


def left() -> int:
    """Count the programs that wait for a helper on this machine, or that it works on."""
    if not os.path.isdir(places.own(places.PENDING)):
        return 0
    from kcl.drivers.pocl.jobs import Queue

    return len(Queue(places.own()).jobs())
