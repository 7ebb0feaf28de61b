"""`kcl remote`: the packs of the remote, and their removal."""

from __future__ import annotations

import time

import click

from kcl.base.text.layout import counted
from kcl.base.text.tables import Column, Columns
from kcl.cli import output
from kcl.remote import packs

_COLUMNS: Columns[packs.ListedPack] = (
    (Column("project"), lambda pack: pack.project),
    (Column("key"), lambda pack: pack.key),
    (Column("size"), lambda pack: output.format_size(pack.size)),
    (Column("age"), lambda pack: output.format_seconds(max(0.0, time.time() - pack.moment))),
    (Column("pack"), lambda pack: pack.name[: output.DIGITS]),
)


@click.group()
def remote() -> None:
    """List and remove the packs of the remote.

    Exits with 0; with 1 if something could not be done.
    """


@remote.command(name="ls", short_help="List the packs.")
def list_packs() -> None:
    """List the packs of the remote: project, key, size and age, as they say of themselves."""
    listed = packs.listed()
    if listed:
        output.table(_COLUMNS, listed)
    else:
        click.echo("no pack is there")


@remote.command(short_help="Remove packs.")
@click.argument("project")
@click.option("--key", metavar="NAME", help="Only the pack under that key of the listing.")
@output.flag("--yes", help="Do not ask.")
def rm(project: str, key: str | None, yes: bool) -> None:
    """Remove the packs of a project, or the one whose name begins so: twelve digits are enough.

    The next push of a machine that has the entries puts them there again.

    Exits with 1 if there is no such pack.
    """
    is_long = len(project) >= output.DIGITS
    chosen = [
        pack
        for pack in packs.listed()
        if (pack.project == project or (is_long and pack.name.startswith(project)))
        and key in (None, pack.key)
    ]
    if not chosen:
        output.fail(f"there is no pack of {project}; `kcl remote ls` lists them")
    output.table(_COLUMNS, chosen)
    if yes or click.confirm("Remove this?", abort=True):
        packs.drop([pack.name for pack in chosen])
        click.echo(f"{counted(len(chosen), 'pack', 'packs')} removed")
