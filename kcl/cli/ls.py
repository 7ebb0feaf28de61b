"""`kcl ls`: the entries of all layers."""

from __future__ import annotations

from collections.abc import Mapping

import click

from kcl.base.text.names import of_parameters
from kcl.base.text.tables import Column, Columns
from kcl.cli import output
from kcl.cli.from_bundle import from_bundle
from kcl.errors import meant
from kcl.inspect.catalogue import SORTS, CacheEntry, Catalogue

COLUMNS: Columns[CacheEntry] = (
    (Column("kernel", 0, "end", 20), lambda entry: entry.kernel),
    (Column("layer"), lambda entry: entry.layer),
    (Column("device", 3, "end", 16), lambda entry: entry.device),
    (Column("parameters", 1, "words", 12), lambda entry: of_parameters(entry.parameters)),
    (Column("dtypes", 4, "end", 12), lambda entry: write_dtypes(entry.dtypes)),
    (Column("size", 5), lambda entry: output.format_size(entry.bytes)),
    (Column("built", 8), lambda entry: output.format_date(entry.built)),
    (Column("took", 7), lambda entry: output.format_seconds(entry.build_seconds)),
    (Column("last hit", 2), lambda entry: output.format_ago(entry.last_used) or "-"),
    (Column("uses", 6), lambda entry: str(entry.uses)),
    (Column("recipe", 10, "middle", 12), lambda entry: entry.recipe),
    (Column("key"), lambda entry: entry.key[: output.DIGITS]),
)
_LINES = 100  # on a terminal, by default


@click.command()
@from_bundle
@output.layers
@click.option("--kernel", help="Only kernels of this name, or that match a pattern such as 'mat*'.")
@click.option("--device", help="Only programs for devices with this in their name.")
@click.option(
    "--sort",
    type=click.Choice(tuple(SORTS)),
    default="built",
    show_default=True,
    help="By what to sort.",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    help=f"At most so many; 0 is all. On a terminal {_LINES}, else all.",
)
@output.replies("a list of entries")
def ls(
    layer_names: tuple[str, ...],
    kernel: str | None,
    device: str | None,
    sort: str,
    limit: int | None,
) -> output.Reply:
    """List the entries of all layers.

    For each: kernel, layer, device, parameters of the recipe, dtypes of the arguments, size, when it was built and
    what that took, last hit, uses, file and line of the recipe, key. A narrow terminal shows fewer of these. An entry
    of the generator layer serves every device. A use is a hit, and making an entry is none. Uses are counted by the
    processes that have ended.

    Exits with 0; with 1 if something in a layer cannot be read.
    """
    catalogue = Catalogue()
    entries, faults = catalogue.choose(layer_names, kernel, device, sort)

    def show() -> None:
        most = (_LINES if output.is_terminal() else 0) if limit is None else limit
        shown = entries[: most or None]
        if shown:
            output.table(COLUMNS, catalogue.describe(shown))
            if len(shown) < len(entries):
                click.echo(f"{len(entries) - len(shown)} more; --limit 0 shows all")
        else:
            click.echo(f"no entries{meant(kernel or '', catalogue.list_kernels())}")

    output.complain(*faults)
    return (
        lambda: [entry._asdict() for entry in catalogue.describe(entries[: limit or None])],
        show,
        bool(faults),
    )


def write_dtypes(texts: Mapping[str, str]) -> str:
    """Write the dtypes of arguments for the user: without the byte order, which is that of this machine."""
    return ", ".join([f"{name}:{dtype.lstrip('<|')}" for name, dtype in texts.items()])
