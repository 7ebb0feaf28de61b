"""`kcl pin` and `kcl unpin`: the kernels that stay, however small the bounds on space are."""

from __future__ import annotations

import click

from kcl.cli import output
from kcl.cli.output import Reply
from kcl.inspect import inventory, pins


@click.command()
@click.argument("kernel", nargs=-1)
@output.replies("a list of pins")
def pin(kernel: tuple[str, ...]) -> Reply:
    """Keep kernels whatever the bounds on space are; without a name, list the pins.

    KERNEL is the name of a kernel, a shell pattern of names, or the start of the digest of an entry. `kcl purge`
    removes pinned kernels too.

    Exits with 0.
    """
    wanted = {text: _pinned(text) for text in kernel}
    if wanted:
        pins.write([*pins.read(), *wanted.values()])
    held = pins.read()
    if not held:
        output.complain("nothing is pinned")
    return Reply(lambda: held, lambda: click.echo("".join(f"{one}\n" for one in held), nl=False))


@click.command()
@click.argument("kernel", nargs=-1, required=True)
def unpin(kernel: tuple[str, ...]) -> None:
    """Let kernels go again that `kcl pin` holds.

    Exits with 1 where one was not pinned.
    """
    before = pins.read()
    wanted = {text: _pinned(text) for text in kernel}
    pins.write([one for one in before if one not in wanted.values()])
    for text, one in wanted.items():
        if one in before:
            click.echo(f"{text} is not pinned any more")
        else:
            output.complain(f"{text} is not pinned; `kcl pin` lists the pins")
    raise SystemExit(output.FINE if set(wanted.values()) <= set(before) else output.FOUND)


def _pinned(text: str) -> str:
    """Return the pin for a text: the whole digest where the text is the start of one, else the text itself."""
    if len(text) < 6 or not frozenset(text) <= frozenset("0123456789abcdef"):
        return text
    digests = {one.digest for one in inventory.entries() if one.digest.startswith(text)}
    return digests.pop() if len(digests) == 1 else text
