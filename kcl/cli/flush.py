"""`kcl flush` and `kcl wait`: complete the entries that wait for it, or wait until helpers have done so."""

from __future__ import annotations

import click

from kcl import drivers
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
    left = _said()
    raise SystemExit(left if done else output.FOUND)


@click.command(short_help="Wait until helpers have completed the entries.")
@click.option("--timeout", type=click.FloatRange(0), default=600.0, show_default=True, help="Wait no longer: seconds.")
def wait(timeout: float) -> None:
    """Wait until the helper process has completed the entries that wait for it.

    The command starts no helper and changes nothing. Where no helper works it ends at once; kcl flush starts one.

    Exits with 0 where every entry is complete; with 1 where programs are left.
    """
    drivers.flush(timeout, starts=False)
    raise SystemExit(_said())


def _said() -> int:
    """Say which programs are left, and return the status."""
    found = drivers.pending()
    for line in found.described() or ["every entry is complete"]:
        click.echo(line)
    return output.FOUND if found.here else output.FINE
