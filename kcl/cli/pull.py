"""`kcl pull` and `kcl push`: bring the pack of a driver from the remote, and take one there."""

from __future__ import annotations

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.cli import output
from kcl.remote import ask, notes
from kcl.remote.stores import shown

_WORDS = {"pull": ("pulled", "absent"), "push": ("pushed", "nothing new")}
_name = click.option(
    "--name", metavar="NAME", help="The driver: FOLDER/FILE, its package, or its remote_name."
)


@click.command()
@_name
def pull(name: str | None) -> None:
    """Bring the pack of a driver from the remote into the cache.

    Without a name it is that of the driver that missed last. For login nodes and the start of batch jobs: a driver does
    the same at its first miss.

    Exits with 0; with 1 where no entry came.
    """
    _do("pull", name, "")


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@_name
def push(file: str | None, name: str | None) -> None:
    """Push what the last runs of a driver used, or the bundle FILE, into its pack.

    Entries that wait for their binary are completed first, as by `kcl flush`. For the end of batch jobs, where no
    process pushes by itself. Entries that others signed stay here.

    Exits with 0; with 1 where the remote could not be written.
    """
    _do("push", name, file or "")


def _do(work: str, name: str | None, file: str) -> None:
    """Do the work for the named driver or the last one, and say what became of it."""
    driver = name or settings.read().remote_name or notes.last()
    if not driver:
        raise click.UsageError("no driver has missed here with this remote: name one with --name")
    found = ask.by_hand(work, driver, file)
    there, absent = _WORDS[work]
    state = f"failed: {found.fault}" if found.fault else there if found.bytes else absent
    came = (
        f": {counted(found.entries, 'entry', 'entries')}, {output.size(found.bytes)}"
        if found.entries
        else ""
    )
    output.say(
        f"{shown(settings.read().remote)}, {driver}: {state}{came} ({output.seconds(found.seconds)})"
    )
    raise SystemExit(
        output.FOUND if found.fault or (work == "pull" and not found.entries) else output.FINE
    )
