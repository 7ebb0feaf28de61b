"""What commands print: tables for a terminal, plain text elsewhere, JSON; and how they end.

rich is imported for a table on a terminal only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

# The exit statuses of every command; click ends with WRONG_USE by itself.
FINE, FOUND, WRONG_USE = 0, 1, 2

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of text under a head."""
    if is_terminal():
        _rich(head, rows)
        return
    from kcl.inspect import report

    click.echo("\n".join(report.table(head, list(rows))))


def is_terminal() -> bool:
    """Tell whether a person reads what is printed; a closed stdout is None."""
    return sys.stdout is not None and sys.stdout.isatty()


def dump(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))


def complain(message: str) -> None:
    """Print a line on stderr."""
    click.echo(message, err=True)


def size(count: float) -> str:
    """Write a number of bytes for a person: three digits and a decimal unit."""
    for unit in _UNITS:
        if count < 999.5 or unit == _UNITS[-1]:
            break
        count /= 1000.0
    return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"


def seconds(count: float) -> str:
    """Write a span of time for a person: in the largest unit of which it is at least one."""
    for length, unit in _SPANS:
        if count >= length:
            number = count / length
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return "0 s"


def ago(moment: float, now: float | None = None) -> str:
    """Write a moment, in seconds since the epoch, as a person speaks of it; empty where it is 0."""
    if not moment:
        return ""
    past = (time.time() if now is None else now) - moment
    return f"{seconds(past) if past >= 1.0 else '<1 s'} ago"


def date(moment: float) -> str:
    """Write a moment, in seconds since the epoch, as local date and time; empty where it is 0."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment else ""


def _rich(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    for number, title in enumerate(head):
        made.add_column(title, justify="right" if _is_numeric(row[number] for row in rows) else "left", overflow="fold")
    for row in rows:
        made.add_row(*[Text(cell) for cell in row])  # text: brackets in a path are not markup
    Console(highlight=False).print(made)


def _is_numeric(cells: Any) -> bool:
    words = [cell.split(" ")[0] for cell in cells if cell]
    return bool(words) and all(word.replace(".", "", 1).isdigit() for word in words)
