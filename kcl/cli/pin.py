"""`kcl pin` and `kcl unpin`: the kernels that stay, however small the bounds on space are."""

from __future__ import annotations

import click

from kcl.cli import output
from kcl.inspect import space


@click.command()
@click.argument("kernel", nargs=-1)
@output.replies("a list of pins")
def pin(kernel: tuple[str, ...]) -> output.Reply:
    """Keep kernels whatever the bounds on space are; without a name, list the pins.

    KERNEL is the name of a kernel, a shell pattern of names, or the digest of an entry, of which twelve digits are
    enough. `kcl purge` removes pinned kernels too.

    Exits with 0.
    """
    if kernel:
        space.save_pins([*space.read_pins(), *kernel])
    pins = space.read_pins()
    if not pins:
        output.complain("nothing is pinned")
    return lambda: pins, lambda: [*map(click.echo, pins)], False


@click.command()
@click.argument("kernel", nargs=-1, required=True)
def unpin(kernel: tuple[str, ...]) -> None:
    """Let kernels go again that `kcl pin` holds.

    Exits with 1 if one was not pinned.
    """
    before = space.read_pins()
    space.save_pins([name for name in before if name not in kernel])
    for name in kernel:
        if name in before:
            click.echo(f"{name} is not pinned any more")
        else:
            output.complain(f"{name} is not pinned; `kcl pin` lists the pins")
    output.end(not set(kernel) <= set(before))
