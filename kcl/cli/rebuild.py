"""`kcl rebuild`: build the programs of a bundle, or of the cache, for the devices of this machine."""

from __future__ import annotations

from collections import Counter

import click

from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.bundle import rebuild as rebuilding
from kcl.cli import output
from kcl.drivers.builder import BUILT, THERE
from kcl.inspect import inventory


@click.command()
@click.argument("file", required=False, type=output.FILE)
@click.option(
    "--to",
    metavar="NEW",
    type=click.Path(dir_okay=False),
    help="Write a bundle, and leave the cache as it is.",
)
@click.option(
    "--device",
    metavar="TEXT",
    default="",
    help="Only devices with this text in their name or platform.",
)
@click.option(
    "--include",
    "-I",
    "directories",
    metavar="DIR",
    multiple=True,
    help="Where the headers of programs lie.",
)
@click.option(
    "--jobs",
    "-j",
    metavar="N",
    type=click.IntRange(1),
    help="Build so many at once; else one for each processor, at most 8.",
)
def rebuild(
    file: str | None, to: str | None, device: str, directories: tuple[str, ...], jobs: int | None
) -> None:
    """Build the programs of the bundle FILE, or of the cache, for the devices of this machine.

    For a driver update, or another kind of machine: it needs neither the program of the user nor loopy. The entries go
    into the cache, or with FILE into the bundle NEW, together with the code of the kernels: the first run there hits.
    Each program is built from the source in its entry, and launched as it was launched first, on arrays of zeros, in a
    process of its own. Where that is not possible PoCL compiles at the first launch. A program whose headers are not
    found is named.

    Exits with 0; with 1 if a program was not built.
    """
    if to and not file:
        raise click.UsageError(
            "--to needs FILE; without FILE `kcl save` writes a bundle afterwards"
        )
    order = {"device": device, "directories": directories}
    faults: inventory.Faults = []
    if file:
        done = rebuilding.of_file(file, to, jobs, **order)
    else:
        listed = inventory.entries(settings.BINARY, faults=faults)
        programs = [entry for row in listed if (entry := row.read(faults))]
        done = rebuilding.of_programs(programs, jobs, **order)
    if not done:
        output.say("no programs")
    fine = {BUILT: "built", THERE: "there before"}
    counts = Counter(
        [(result.device, fine.get(result.verdict.outcome, "not built")) for result in done]
    )
    for (name, what), count in sorted(counts.items()):
        output.say(f"{name}: {counted(count, 'program', 'programs')} {what}")
    for result in done:
        if result.verdict.outcome not in fine:
            output.complain(f"{result.kernel}: {': '.join(filter(None, result.verdict))}")
        elif result.launch:
            output.say(f"{result.kernel}: not launched: {result.launch}")
    output.complain(*faults)
    output.end(bool(faults) or any(result.verdict.outcome not in fine for result in done))
