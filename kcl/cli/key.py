"""`kcl key`: the keys that sign packs, and those that are trusted."""

from __future__ import annotations

import sys
from collections import Counter

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.base.text.tables import Column, Columns
from kcl.cli import output
from kcl.cli.purge import say_removed
from kcl.inspect import purge as purging
from kcl.inspect.inventory import Faults
from kcl.remote import seal

# A line is (name of a key, its id, number of entries that came with it).
_COLUMNS: Columns[tuple[str, str, int]] = (
    (Column("name"), lambda line: line[0]),
    (Column("id"), lambda line: line[1]),
    (Column("entries"), lambda line: str(line[2])),
)


@click.group()
def key() -> None:
    """Make, trust and forget keys: packs of a remote are loaded if a trusted key has signed them.

    Exits with 0; with 1 if something could not be done.
    """


@key.command(short_help="Make a key, and print its public line.")
@click.argument("name")
def new(name: str) -> None:
    """Make a key that signs what this user pushes, and print its public line.

    Exits with 1 if there is a key of that name.
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


@key.command(name="list", short_help="List the keys, with what they brought.")
def list_keys() -> None:
    """List the keys that are trusted, and those that were, with what they brought."""
    faults: Faults = []
    brought = Counter(signer for _entry, ids in purging.list_signed(faults) for signer in ids)
    output.complain(*faults)
    forgotten = [public for public in seal.forgotten() if brought[public.id]]
    # If a key is both trusted and forgotten, the trusted name is shown.
    names = {
        **dict.fromkeys(brought, "(unknown)"),
        **{public.id: f"{public.name} (forgotten)" for public in forgotten},
        **{public.id: public.name for public in seal.trusted()},
    }
    if names:
        output.table(_COLUMNS, [(name, signer, brought[signer]) for signer, name in names.items()])
    else:
        click.echo("no key is trusted")
    output.end(bool(faults))


@key.command(short_help="Trust a key no longer.")
@click.argument("name")
@click.option(
    "--purge/--keep",
    default=None,
    help="Remove what it brought, or keep it; else you are asked at a terminal.",
)
def forget(name: str, purge: bool | None) -> None:
    """Trust a key no longer, and remove the entries that it brought, if you wish.

    Exits with 1 if no key of that name is trusted.
    """
    gone = next((public for public in seal.trusted() if public.name == name), None)
    if gone is None:
        output.fail(f"no key {name} is trusted; `kcl key list` lists them")
    if gone.line in settings.read().trusted_keys:
        output.fail(f"{name} is in trusted_keys of a settings file: remove it there")
    seal.forget(name)
    output.say(f"{name} is not trusted any more")
    plan = purging.carry_out(signer=gone.id, dry_run=True)
    output.complain(*plan.refusals)
    words = counted(sum(len(item.addresses) for item in plan.items), "entry", "entries")
    # Without a terminal nobody can be asked.
    if plan.items and purge is None and not sys.stdin.isatty():
        output.say(f"{words} of it stay: kcl purge --signed-by {gone.id} removes them")
    elif plan.items and (
        click.confirm(f"Remove the {words} that it brought?") if purge is None else purge
    ):
        plan = say_removed(plan, purging.carry_out(signer=gone.id))
    output.end(bool(plan.refusals))
