"""`kcl ls`: the entries of all layers."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable
from typing import Any

import click

from kcl import settings
from kcl.cli import completion, output
from kcl.inspect import inventory
from kcl.inspect.history import journal
from kcl.inspect.history.journal import DIGITS, Used
from kcl.inspect.inventory import Fault
from kcl.inspect.inventory.listing import Summary

HEAD = ("kernel", "layer", "device", "size", "built", "took", "last used", "uses", "key")
_DIGITS = 12  # of a digest, for a person
_LINES = 100  # on a terminal, where nothing else is asked for
_UNUSED = Used(0, 0.0)

Pair = tuple[Summary, Used]

# By what can be sorted: words in their order, numbers and times the largest first.
SORTS: dict[str, Callable[[Pair], Any]] = {
    "kernel": lambda pair: (pair[0].kernel, pair[0].layer, pair[0].device, -pair[0].built),
    "layer": lambda pair: (pair[0].layer, pair[0].kernel, pair[0].device),
    "device": lambda pair: (pair[0].device, pair[0].kernel, pair[0].layer),
    "size": lambda pair: -pair[0].size,
    "built": lambda pair: -pair[0].built,
    "took": lambda pair: -pair[0].seconds,
    "used": lambda pair: -pair[1].last,
    "uses": lambda pair: -pair[1].uses,
}


@click.command()
@click.option("--layer", "layer_names", type=click.Choice(settings.LAYERS), multiple=True, help="Only this layer.")
@click.option(
    "--kernel",
    shell_complete=completion.kernels,
    help="Only kernels of this name, or that match a pattern such as 'mat*'.",
)
@click.option("--device", help="Only programs for devices with this in their name.")
@click.option("--sort", type=click.Choice(tuple(SORTS)), default="built", show_default=True, help="By what to sort.")
@click.option("--limit", type=click.IntRange(0), help=f"At most so many; 0 is all. On a terminal {_LINES}, else all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of entries.")
def ls(
    layer_names: tuple[str, ...],
    kernel: str | None,
    device: str | None,
    sort: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """List entries: kernel, layer, device, size, when they were built and what that took, last use, uses, key.

    An entry of the generator layer serves every device. Uses are counted by the processes that have ended.

    Exits with 0; with 1 where something in a layer cannot be read.
    """
    faults: list[Fault] = []
    uses = journal.uses()
    found = [
        (one, uses.get(one.digest[:DIGITS], _UNUSED))
        for one in inventory.summaries(*layer_names, faults=faults)
        if (not kernel or fnmatch.fnmatchcase(one.kernel, kernel)) and _is_for(one, device)
    ]
    found.sort(key=SORTS[sort])
    if limit is None and not as_json and output.is_terminal():
        limit = _LINES
    shown = found[:limit] if limit else found
    if as_json:
        output.dump([described(*pair) for pair in shown])
    elif shown:
        output.table(HEAD, [cells(*pair) for pair in shown])
        if len(shown) < len(found):
            click.echo(f"{len(found) - len(shown)} more; --limit 0 shows all")
    else:
        click.echo("no entries")
    complain(faults)
    raise SystemExit(output.FOUND if faults else output.FINE)


def cells(found: Summary, used: Used) -> tuple[str, ...]:
    """Write an entry as a line of a table."""
    return (
        found.kernel,
        found.layer,
        found.device,
        output.size(found.size),
        output.date(found.built),
        output.seconds(found.seconds),
        output.ago(used.last) or "never",
        str(used.uses),
        found.digest[:_DIGITS],
    )


def described(found: Summary, used: Used) -> dict[str, Any]:
    """Write an entry as JSON."""
    return {
        "kernel": found.kernel,
        "layer": found.layer,
        "platform": found.platform,
        "device": found.device,
        "bytes": found.size,
        "built": found.built,
        "build_seconds": found.seconds,
        "last_used": used.last or None,
        "uses": used.uses,
        "key": found.digest,
    }


def complain(faults: Iterable[Fault]) -> None:
    """Say on stderr what could not be read."""
    for fault in faults:
        output.complain(in_words(fault))


def in_words(fault: Fault) -> str:
    """Say where something is wrong, and what."""
    where = "" if fault.place in fault.reason else f"{fault.place}: "
    return f"{fault.layer}: {where}{fault.reason}"


def _is_for(found: Summary, device: str | None) -> bool:
    return not device or device.lower() in found.device.lower()
