"""`kcl load`: store the entries of bundles in the cache."""

from __future__ import annotations

import os
from collections import Counter

import click

from kcl import bundle
from kcl.base.text.layout import counted
from kcl.bundle import contents
from kcl.cli import output


@click.command()
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=output.FILE,
)
@click.option(
    "--into",
    metavar="DIR",
    help="Fill a site directory, which everyone may read, in place of the cache.",
)
@output.flag("--usable", help="Store only what can hit here; status 1 if that is nothing.")
def load(files: tuple[str, ...], into: str | None, usable: bool) -> None:
    """Store the entries of bundles in the cache, as `kcl save` or a program made them.

    An entry that is there stays, unless the new one has more. Entries that cannot hit here are stored too, since an
    image is built on another machine than it runs on; the command says how many these are, and why. A bundle runs code
    as you: load those of people whose programs you would run. `--into` makes or extends a directory that
    `KCL_SITE` names for other users.

    Exits with 0; with 1 if nothing was stored, or a bundle is damaged.
    """
    if into:
        # Everyone may read a site directory.
        os.umask(0o022)
    loaded = [
        (file, contents.load(bundle.read_file(file), usable, os.path.abspath(into) if into else ""))
        for file in files
    ]
    for file, info in loaded:
        output.say(f"{file}:\n{info}")
        for reason, count in Counter([reason for _digest, reason in info.unusable]).items():
            output.say(f"{counted(count, 'entry', 'entries')} cannot hit here: {reason}")
    damaged = any(info.refused for _file, info in loaded)
    output.end(damaged or all(info.empty() for _file, info in loaded))
