"""`kcl flush`: complete the entries that wait for it."""

from __future__ import annotations

import os

import click

from kcl.cache import places
from kcl.cli import output
from kcl.inspect import report


@click.command()
@click.option("--seconds", type=click.FloatRange(0), default=600.0, show_default=True, help="Wait no longer.")
def flush(seconds: float) -> None:
    """Complete the entries that wait for it, and wait until that is done.

    On PoCL a helper process completes entries in the background, also after a run. Call this before you copy the cache,
    or before the machine is taken away.

    Exits with 0; with 1 where programs are left.
    """
    done = report.flush(seconds)
    left = _left()
    click.echo("every entry is complete" if done and not left else f"{left} programs are still being completed")
    raise SystemExit(output.FINE if done else output.FOUND)


def _left() -> int:
    if not os.path.isdir(places.own(places.PENDING)):
        return 0
    from kcl.drivers.pocl.jobs import Queue

    return len(Queue(places.own()).jobs())
