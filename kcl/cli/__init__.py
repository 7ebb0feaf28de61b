"""The command line: `kcl` and `python -m kcl`. No command imports loopy."""

from __future__ import annotations

import click

import kcl
from kcl.cli.status import status


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kcl.__version__, prog_name="kcl")
def main() -> None:
    """See the kernel caches of OpenCL programs."""


main.add_command(status)
