"""The command line: `kcl` and `python -m kcl`. No command imports loopy.

A command lives in a module of its own, which is imported when the command is asked for. The output of all commands
goes through `kcl.cli.output`.
"""

from __future__ import annotations

import codecs
import errno
import importlib
import io
import os
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

import kcl
from kcl.base import settings
from kcl.errors import CacheFault, meant

# Name -> module, in the order of the help; the command is the module's attribute of that name.
COMMANDS = {
    "run": "kcl.cli.run",
    "tune": "kcl.cli.tune",
    "status": "kcl.cli.status",
    "ls": "kcl.cli.ls",
    "show": "kcl.cli.show",
    "explain": "kcl.cli.explain",
    "report": "kcl.cli.report",
    "verify": "kcl.cli.verify",
    "stats": "kcl.cli.stats",
    "unpack": "kcl.cli.unpack",
    "env": "kcl.cli.env",
    "flush": "kcl.cli.flush",
    "wait": "kcl.cli.flush",
    "save": "kcl.cli.save",
    "load": "kcl.cli.load",
    "rebuild": "kcl.cli.rebuild",
    "pull": "kcl.cli.pull",
    "push": "kcl.cli.pull",
    "remote": "kcl.cli.remote",
    "key": "kcl.cli.key",
    "purge": "kcl.cli.purge",
    "gc": "kcl.cli.gc",
    "pin": "kcl.cli.pin",
    "unpin": "kcl.cli.pin",
    "doctor": "kcl.cli.doctor",
    "init": "kcl.cli.init",
}
# The parameters that name kernels, which a shell completes.
_KERNELS = {"kernel", "key", "only"}


class Lazy(click.Group):
    """A group of commands that imports the module of a command only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (the names are click's)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        # The whole first sentence: click would cut it.
        command.short_help = command.get_short_help_str(1000)
        for parameter in command.params:
            if parameter.name in _KERNELS:
                parameter.shell_complete = _complete  # type: ignore[method-assign]
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find a command; for an unknown one, name the nearest, which not every click does."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = meant(args[0], COMMANDS)
            if not near or args[0].startswith("-"):
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}{near}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; report an error of the system in one line, and end quietly if the reader closes the pipe."""
        try:
            return super().invoke(ctx)
        except (OSError, CacheFault) as error:
            if getattr(error, "errno", None) == errno.EPIPE:
                # click ends quietly in this case.
                raise
            _discard_output()
            raise click.ClickException(str(error)) from None


def _complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the names of kernels that have an entry, for the shell."""
    from kcl.inspect.catalogue import Catalogue

    return [
        CompletionItem(name) for name in Catalogue().list_kernels() if name.startswith(incomplete)
    ]


def _discard_output() -> None:
    """Discard output that stdout cannot write, because Python would try again at its end and change the exit status."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kcl.__version__, prog_name="kcl")
def main() -> None:
    """See and steer the kernel caches of OpenCL programs.

    Exit status: 0 if all is well, 1 if something was found or could not be done, 2 for a wrong use.
    """
    if settings.variable("NO_COLOR"):
        click.get_current_context().color = False
    # The name of a file may be any bytes.
    if isinstance(sys.stdout, io.TextIOWrapper):
        is_utf8 = codecs.lookup(sys.stdout.encoding).name == "utf-8"
        sys.stdout.reconfigure(errors="surrogateescape" if is_utf8 else "backslashreplace")
