"""`kcl pull` and `kcl push`: bring the packs of a project from the remote, and take one there."""

from __future__ import annotations

import os
from typing import Any

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.cli import output
from kcl.remote import ask, outcomes, project, used
from kcl.remote.stores import shown

_SECONDS = 600.0  # in which a push by a user is tried again while others push
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

    Exits with 0; with 1 if no entry came.
    """
    outcome = _carry_out("pull", name)
    output.end(bool(outcome.fault) or not outcome.entries)


@click.command()
@click.argument("file", required=False, type=output.FILE)
@_name
@click.option(
    "--key",
    type=click.File("r"),
    help="A file with the secret half of the key that signs; `-` is a pipe.",
)
def push(file: str | None, name: str | None, key: Any) -> None:
    """Push what the runs here used and the remote lacks, or the bundle FILE.

    Entries that wait for their binary are completed first, as by `kcl flush`. For the end of batch jobs, where no
    process pushes by itself. Entries that came under another key stay here.

    Exits with 0, also if nothing was missing; with 1 if the remote could not be written.
    """
    secret = key.read().strip() if key is not None else ""
    if key is not None and not secret:
        raise click.UsageError("--key is empty: is the secret given to this job?")
    path = os.path.abspath(file) if file else ""
    outcome = _carry_out("push", name, file=path, seconds=_SECONDS, secret=secret)
    output.end(bool(outcome.fault))


def _carry_out(work: str, name: str | None, **more: Any) -> outcomes.Outcome:
    """Do the work for the named project or the last one, and say what became of it."""
    here = project.name()
    # If this project has nothing to push, take the project that ran last.
    last = here if used.waits(here) else used.last()
    chosen = name or settings.read().remote_name or last or here
    outcome = ask.by_hand(work, chosen, **more)
    came = f"{counted(outcome.entries, 'entry', 'entries')}, {output.format_size(outcome.bytes)}"
    words = f"{work}ed: {came}" if outcome.bytes else "nothing is there" if work == "pull" else ""
    if outcome.fault:
        words = f"failed: {outcome.fault}"
    output.say(
        f"{shown(settings.read().remote)}, {chosen}: "
        f"{'; '.join(filter(None, (words, outcome.remark)))} "
        f"({output.format_seconds(outcome.seconds)})"
    )
    if chosen == here and not project.written():
        output.say(f"{here} is the name of the folder; remote_name in pyproject.toml gives another")
    return outcome
