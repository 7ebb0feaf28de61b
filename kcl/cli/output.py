"""The output of commands: tables, lines and JSON; and their exit statuses.

A table fits on a terminal, or in the width that `COLUMNS` gives. In a pipe everything is printed, and nothing is cut.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import click

from kcl.base import settings
from kcl.base.text import tables
from kcl.base.text.layout import folded

# The exit statuses of every command; click ends with WRONG_USE by itself.
FINE, FOUND, WRONG_USE = 0, 1, 2

# Words that a terminal shows in a colour; click takes it away elsewhere.
_COLOURS = {"hit": "green", "miss": "yellow", "bypass": "yellow", "error": "red", "off": "yellow"}
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
flag = functools.partial(click.option, is_flag=True)
layers = click.option(
    "--layer",
    "layer_names",
    type=click.Choice(settings.LAYERS),
    multiple=True,
    help="Only this layer.",
)
FILE = click.Path(exists=True, dir_okay=False)
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


# What a command has found: the value for `--json`, the printing for people, and whether the exit status is 1.
Reply = tuple[Callable[[], Any], Callable[[], object], bool]


def replies(what: str) -> Callable[[Callable[..., Reply]], Callable[..., None]]:
    """Return a decorator that gives a command the option `--json` and prints its answer; `what` is in the help."""

    def decorate(command: Callable[..., Reply]) -> Callable[..., None]:
        @flag("--json", "as_json", help=f"Print JSON: {what}.")
        @functools.wraps(command)
        def run(as_json: bool, **options: Any) -> None:
            value, show, fails = command(**options)
            click.echo(json.dumps(value(), indent=2)) if as_json else show()
            end(fails)

        return run

    return decorate


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Let what cannot be meant end the command with status 2."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def end(fails: bool) -> NoReturn:
    """End the command, with status 1 if something was found or could not be done."""
    raise SystemExit(FOUND if fails else FINE)


def fail(message: str) -> NoReturn:
    """Complain, and end the command with status 1."""
    complain(message)
    end(True)


def table(
    columns: Sequence[tables.Column], rows: Sequence[Sequence[str]], err: bool = False
) -> None:
    """Print rows of text under the titles of their columns."""
    click.echo(paint("\n".join(tables.lines(columns, rows, find_width()))), err=err)


def paint(text: str) -> str:
    """Give words that say how a look-up ended, or that something is off, their colour."""
    words = rf"\b({'|'.join(_COLOURS)})\b"
    return re.sub(words, lambda match: click.style(match[0], _COLOURS[match[0]]), text)


def is_terminal() -> bool:
    """Return True if stdout is a terminal; a closed stdout is None."""
    return sys.stdout is not None and sys.stdout.isatty()


def find_width() -> int | None:
    """Return the number of characters of a line: of the terminal, or `COLUMNS`; None in a pipe, where it is endless."""
    if is_terminal() or (settings.variable("COLUMNS") or "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def say(text: str, hang: int = 2, err: bool = False) -> None:
    """Print lines of prose, whose further lines begin at a column; a long word, for example a path, stays whole."""
    room = find_width()
    for line in text.split("\n"):
        click.echo(paint("\n".join(folded(line, room, hang)) if room else line), err=err)


def complain(*messages: object) -> None:
    """Print lines on stderr."""
    for message in messages:
        say(str(message), err=True)


def format_size(count: float) -> str:
    """Write a number of bytes for the user: three digits and a decimal unit."""
    for unit in _UNITS:
        if count < 999.5 or unit == _UNITS[-1]:
            break
        count /= 1000.0
    return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"


def format_seconds(count: float) -> str:
    """Write a span of time for the user: in the largest unit of which it is at least one."""
    for length, unit in _SPANS:
        if count >= length:
            number = count / length
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return "0 s"


def format_ago(moment: float | None) -> str:
    """Write a moment, in seconds since the epoch, as a span before now; empty where it is 0 or unknown."""
    if not moment:
        return ""
    past = time.time() - moment
    return f"{format_seconds(past) if past >= 1.0 else '<1 s'} ago"


def format_date(moment: float) -> str:
    """Write a moment, in seconds since the epoch, as local date and time; empty where it is 0."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment else ""
