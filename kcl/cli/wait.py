"""`kcl wait`: wait until helpers have completed the entries that wait for it."""

from __future__ import annotations

import click

from kcl.cache import places
from kcl.cli import flush, output


@click.command(short_help="Wait until helpers have completed the entries.")
@click.option("--timeout", type=click.FloatRange(0), default=600.0, show_default=True, help="Wait no longer: seconds.")
def wait(timeout: float) -> None:
    """Wait until the helper process has completed the entries that wait for it.

    The command starts no helper and changes nothing. Where no helper works it ends at once; kcl flush starts one.

    Exits with 0 where every entry is complete; with 1 where programs are left.
    """
    left = flush.left()
    if left:
        from kcl.drivers.pocl import client

        client.idle(places.own(), timeout)
        left = flush.left()
    click.echo(flush.said(left) + (" (kcl flush starts a helper)" if left and not _has_helper() else ""))
    raise SystemExit(output.FOUND if left else output.FINE)


def _has_helper() -> bool:
    from kcl.drivers.pocl.jobs import Queue

    return Queue(places.own()).has_helper()
