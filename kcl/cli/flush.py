"""`kcl flush` and `kcl wait`: complete the entries that wait for it, and wait until that is done."""

from __future__ import annotations

import click

from kcl import drivers, inspect
from kcl.base.settings import trust
from kcl.cache import places
from kcl.cli import output
from kcl.errors import CacheFault


@click.command()
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="Wait at most: seconds.",
)
@output.replies("what is left")
def flush(timeout: float) -> output.Reply:
    """Complete the entries that wait for it, and wait until that is done.

    On PoCL a helper process completes entries in the background, also after a run. Call this before you copy the cache,
    or before the machine is taken away. `kcl flush` and `kcl wait` are one command.

    Exits with 0 if every entry is complete; with 1 if programs are left, or nothing can be stored.
    """
    done = inspect.flush(timeout)
    try:
        # If nothing can be stored, no entry waits either, so this is checked first.
        trust.check(places.own())
        trust.check_writer(places.own(), gives=True)
        pending = drivers.pending()
    except (OSError, CacheFault) as error:
        output.fail(f"nothing can be stored: {error}")
    words = pending.described()
    value = {"programs": len(pending.here), "elsewhere": pending.devices(), "words": words}
    return (
        lambda: value,
        lambda: click.echo("\n".join(words or ["every entry is complete"])),
        bool(pending.here) or not done,
    )


wait = flush
