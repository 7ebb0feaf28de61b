"""`kcl flush` and `kcl wait`: complete the entries that wait for it, and wait until that is done."""

from __future__ import annotations

import click

from kcl import drivers
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cli import output
from kcl.cli.output import Reply
from kcl.errors import CacheFault
from kcl.inspect import report

_timeout = click.option(
    "--timeout",
    "--seconds",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="Wait at most: seconds.",
)


@click.command()
@_timeout
@output.replies("what is left")
def flush(timeout: float) -> Reply:
    """Complete the entries that wait for it, and wait until that is done.

    On PoCL a helper process completes entries in the background, also after a run. Call this before you copy the cache,
    or before the machine is taken away.

    Exits with 0; with 1 where programs are left, or nothing can be stored.
    """
    return _left(report.flush(timeout))


@click.command(short_help="Complete the entries, and wait until that is done.")
@_timeout
@output.replies("what is left")
def wait(timeout: float) -> Reply:
    """Complete the entries that wait for it, and wait until that is done, as kcl flush does.

    Exits with 0 where every entry is complete; with 1 where programs are left, or nothing can be stored.
    """
    return _left(report.flush(timeout))


def _left(done: bool) -> Reply:
    """Return the programs that are left."""
    try:
        trust.check(places.own())
        trust.check_writer(places.own(), gives=True)
        found = drivers.pending()
    except (OSError, CacheFault) as error:
        output.fail(f"nothing can be stored: {error}")
    words = found.described()
    value = {"programs": len(found.here), "elsewhere": found.devices(), "words": words}
    return Reply(
        lambda: value,
        lambda: click.echo("\n".join(words or ["every entry is complete"])),
        bool(found.here) or not done,
    )
