"""`kcl flush` and `kcl wait`: complete the entries that wait for it, or wait until helpers have done so."""

from __future__ import annotations

import os

import click

from kcl.base.text.layout import counted
from kcl.cache import places
from kcl.cli import output
from kcl.drivers.pocl import client
from kcl.drivers.pocl.jobs import JobQueue
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
    click.echo(_said(_left()))
    raise SystemExit(output.FINE if done else output.FOUND)


@click.command(short_help="Wait until helpers have completed the entries.")
@click.option("--timeout", type=click.FloatRange(0), default=600.0, show_default=True, help="Wait no longer: seconds.")
def wait(timeout: float) -> None:
    """Wait until the helper process has completed the entries that wait for it.

    The command starts no helper and changes nothing. Where no helper works it ends at once; kcl flush starts one.

    Exits with 0 where every entry is complete; with 1 where programs are left.
    """
    left = _left()
    if left:
        client.idle(places.own(), timeout)
        left = _left()
    has_helper = not left or JobQueue(places.own()).has_helper()
    click.echo(_said(left) + ("" if has_helper else " (kcl flush starts a helper)"))
    raise SystemExit(output.FOUND if left else output.FINE)


def _said(left: int) -> str:
    """Say how many programs are left."""
    return f"{counted(left, 'program is', 'programs are')} still being completed" if left else "every entry is complete"


def _left() -> int:
    """Count the programs that wait for a helper on this machine, or that it works on."""
    if not os.path.isdir(places.own(places.PENDING)):
        return 0
    return len(JobQueue(places.own()).jobs())
