"""`kcl key`: the keys that sign packs, and those that are trusted."""

from __future__ import annotations

import os
from collections import Counter

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column
from kcl.cache import layers, run_memo
from kcl.cli import output
from kcl.remote import notes, seal


@click.group()
def key() -> None:
    """Make, trust and forget keys: packs of a remote are loaded if a trusted key has signed them.

    Exits with 0; with 1 where something could not be done.
    """


@key.command(short_help="Make a key, and print its public line.")
@click.argument("name")
def new(name: str) -> None:
    """Make a key that signs what this user pushes, and print its public line.

    Exits with 1 where there is a key of that name.
    """
    made = seal.new(name)
    click.echo(made.line)
    output.complain(
        f"the secret half is {seal.path_of(name)}; readers trust it with: kcl key trust {made.line}"
    )


@key.command(name="trust", short_help="Trust a key: what it signed is loaded.")
@click.argument("line")
def trust_key(line: str) -> None:
    """Trust a key: from now on the packs that it signed are loaded. LINE is what `kcl key new` printed.

    Whoever has the secret half can run code as you: trust those whose programs you would run.
    """
    seal.trust_key(seal.key_of(line))
    output.say(f"{line.strip().partition(':')[0]} is trusted")


@key.command(name="list")
def list_keys() -> None:
    """List the keys that are trusted, with what they brought."""
    brought = Counter(notes.arrivals().values())
    rows = [(one.name, one.id, str(brought[one.id])) for one in seal.trusted()]
    if rows:
        output.table((Column("name"), Column("id"), Column("entries")), rows)
    else:
        click.echo("no key is trusted")


@key.command(short_help="Trust a key no longer.")
@click.argument("name")
@click.option(
    "--purge/--keep", default=None, help="Remove what it brought, or keep it; else you are asked."
)
def forget(name: str, purge: bool | None) -> None:
    """Trust a key no longer, and remove the entries that it brought, if you wish.

    Exits with 1 where no key of that name is trusted.
    """
    gone = [one for one in seal.trusted() if one.name == name]
    if not gone:
        output.fail(f"no key {name} is trusted; `kcl key list` lists them")
    if any(one.line in settings.read().trusted_keys for one in gone):
        output.fail(f"{name} is in trusted_keys of a settings file: remove it there")
    os.unlink(seal.path_of(name, seal.TRUSTED))
    output.say(f"{name} is not trusted any more")
    brought = [
        place for place, signer in notes.arrivals().items() if signer in {one.id for one in gone}
    ]
    words = counted(len(brought), "entry", "entries")
    if brought and (
        click.confirm(f"Remove the {words} that it brought?") if purge is None else purge
    ):
        for kind, address in brought:
            (layers.layer(kind) if kind in settings.LAYERS else run_memo.store(kind)).delete(
                address
            )
        output.say(f"{words} removed")
