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
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import click

from kcl.base import settings
from kcl.base.text import tables
from kcl.base.text.layout import folded
from kcl.base.text.tables import Columns, Row

# The exit statuses of every command; for a wrong use click ends with 2 by itself.
FINE, FOUND = 0, 1

# Words that a terminal shows in a colour; click takes it away elsewhere.
_COLOURS = {"hit": "green", "miss": "yellow", "bypass": "yellow", "error": "red", "off": "yellow"}
DIGITS = 12  # of a digest, for the user
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


# The result of a command: (function that returns the value for `--json`, function that prints the text, True for exit
# status 1). Only one of the two functions is called.
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
    """End the command with status 2 if the block raises ValueError, which here means a wrong argument."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def end(fails: bool) -> NoReturn:
    """End the command, with status 1 if something was found or could not be done."""
    raise SystemExit(FOUND if fails else FINE)


def fail(message: str) -> NoReturn:
    """Print a message on stderr, and end the command with status 1."""
    complain(message)
    end(True)


def table(columns: Columns[Row], rows: Iterable[Row], err: bool = False) -> None:
    """Print a line for each row, under the titles of the columns."""
    width = find_width()
    text = "\n".join(tables.lines_of(columns, rows, width))
    # A pipe shows no colours, and a table may be long.
    click.echo(paint(text) if width else text, err=err)


def paint(text: str) -> str:
    """Colour the words for outcomes of look-ups, and the word "off"."""
    words = rf"\b({'|'.join(_COLOURS)})\b"
    return re.sub(words, lambda match: click.style(match[0], _COLOURS[match[0]]), text)


def is_terminal() -> bool:
    """Return True if stdout is a terminal; a closed stdout is None."""
    return sys.stdout is not None and sys.stdout.isatty()


def find_width() -> int | None:
    """Return the width of a line: `COLUMNS`, or that of the terminal; None in a pipe, where lines are not folded."""
    if is_terminal() or (settings.variable("COLUMNS") or "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def say(text: str, hang: int = 2, err: bool = False) -> None:
    """Print lines of prose, folded to the width of the terminal; a long word, for example a path, stays whole.

    The second and further lines that a line is folded to begin in the column `hang`.
    """
    room = find_width()
    for line in text.split("\n"):
        click.echo(paint("\n".join(folded(line, room, hang)) if room else line), err=err)


def complain(*messages: object) -> None:
    """Print lines on stderr."""
    for message in messages:
        say(str(message), err=True)


def format_size(count: float) -> str:
    """Format a number of bytes with three digits and a decimal unit, for example `57.3 kB`."""
    for unit in _UNITS:
        if count < 999.5 or unit == _UNITS[-1]:
            break
        count /= 1000.0
    return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"


def format_seconds(count: float) -> str:
    """Format a duration in its largest fitting unit, for example `2.5 s`."""
    for length, unit in _SPANS:
        if count >= length:
            number = count / length
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return "0 s"


def format_ago(moment: float | None) -> str:
    """Format how long ago a moment was, in seconds since the epoch; empty if it is 0 or unknown."""
    if not moment:
        return ""
    past = time.time() - moment
    return f"{format_seconds(past) if past >= 1.0 else '<1 s'} ago"


def format_date(moment: float) -> str:
    """Format a moment, in seconds since the epoch, as local date and time; empty if it is 0."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment else ""
