"""`kcl pull` and `kcl push`: bring the packs of a project from the remote, and take one there."""

from __future__ import annotations

from typing import Any

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.cli import output
from kcl.remote import ask, notes, project, used
from kcl.remote.stores import shown

_name = click.option(
    "--name",
    metavar="NAME",
    help="The project, as `kcl push` prints it; else that of the last run here.",
)


@click.command()
@_name
def pull(name: str | None) -> None:
    """Bring the packs of a project from the remote into the cache.

    For login nodes and the start of batch jobs: a driver does the same at its first miss.

    Exits with 0; with 1 where no entry came.
    """
    found = _done("pull", name)
    output.end(bool(found.fault) or not found.entries)


@click.command()
@click.argument("file", required=False, type=output.FILE)
@_name
@click.option(
    "--key",
    type=click.File("r"),
    help="A file with the secret half of the key that signs; `-` is a pipe.",
)
@output.flag("--anew", help="Start the pack over, where it is damaged.")
def push(file: str | None, name: str | None, key: Any, anew: bool) -> None:
    """Push what the runs here used and the remote lacks, or the bundle FILE.

    Entries that wait for their binary are completed first, as by `kcl flush`. For the end of batch jobs, where no
    process pushes by itself. Entries that came under another key stay here.

    Exits with 0, also where nothing was missing; with 1 where the remote could not be written.
    """
    secret = key.read().strip() if key is not None else ""
    if key is not None and not secret:
        raise click.UsageError("--key is empty: is the secret given to this job?")
    found = _done("push", name, file=file or "", secret=secret, anew=anew)
    output.end(bool(found.fault))


def _done(work: str, name: str | None, **more: Any) -> notes.Outcome:
    """Do the work for the named project or the last one, and say what became of it."""
    here = project.project()
    last = here.name if used.waits(here.name) else used.last()
    if (chosen := name or settings.read().remote_name or last or here.name) != here.name:
        here = project.Project(chosen, "")
    found = ask.by_hand(work, here.name, **more)
    came = f"{counted(found.entries, 'entry', 'entries')}, {output.size(found.bytes)}"
    there, absent = {"pull": ("pulled", "nothing is there"), "push": ("pushed", "")}[work]
    words = [
        f"failed: {found.fault}" if found.fault else f"{there}: {came}" if found.bytes else absent,
        found.remark,
    ]
    output.say(
        f"{shown(settings.read().remote)}, {here.name}: {'; '.join(filter(None, words))} ({output.seconds(found.seconds)})"
    )
    if here.source.startswith("the folder"):
        output.say(f"the name is that of {here.source}; remote_name in pyproject.toml gives one")
    return found
