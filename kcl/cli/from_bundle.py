"""The option `--from` of commands that list entries: they read a bundle in place of the cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click

from kcl.base.settings import option
from kcl.cli import output


@contextmanager
def _in_place_of_the_cache(file: str) -> Iterator[None]:
    """In the block, let commands see only the entries of a bundle."""
    # Imported late: listings without the option do not need it.
    from kcl import bundle
    from kcl.bundle import contents

    with tempfile.TemporaryDirectory(prefix="kcl-from-") as folder, option.cache_dir(folder):
        info = contents.load(bundle.read_file(file))
        for digest, reason in [*info.refused, *info.left_out]:
            output.complain(f"{file}: {digest[:12]}: {reason}")
        yield


def _see(context: click.Context, _parameter: click.Parameter, file: str | None) -> None:
    if file is not None and not context.resilient_parsing:
        # Not while a shell completes words. The loaded entries are removed at the end of the command.
        context.with_resource(_in_place_of_the_cache(os.path.abspath(file)))


from_bundle = click.option(
    "--from",
    type=output.FILE,
    expose_value=False,
    callback=_see,
    help="Of a bundle that kcl save or a program made, in place of the cache.",
)
