"""What commands print: tables, lines and JSON; and how they end.

A table fits where it is printed. On a terminal, or where `COLUMNS` says a width, blank columns go first, then those of
the highest rank; what is left gives way as its column says. In a pipe everything is printed, and nothing is cut.
Colours are for terminals without `NO_COLOR`.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click

from kcl import settings
from kcl.namedtuple import NamedTuple
from kcl.text.layout import columns_of, cut, folded, is_numeric, shortened

T = TypeVar("T")

# The exit statuses of every command; click ends with WRONG_USE by itself.
FINE, FOUND, WRONG_USE = 0, 1, 2

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_GAP = "  "
_LONG = 100  # items of a list of JSON that a person still reads
# By the first words of a cell in a column of states.
_COLOURS = {
    **dict.fromkeys(("on", "ok", "fine"), "green"),
    **dict.fromkeys(("off", "partly off", "warning", "not comparable"), "yellow"),
    **dict.fromkeys(("memory only", "problem", "different"), "red"),
}


class Column(NamedTuple):
    """A column of a table: its title, and how it gives way where there is no room.

    A column of rank 0 always stays. `give` tells how its cells become shorter, down to `least` characters: "end" and
    "middle" leave characters out there, "words" goes on in the next line, and so does "names", which are never cut.
    Without it they never give way: a key is to be pasted. The cells of `states` are coloured.
    """

    title: str
    rank: int = 0
    give: str = ""
    least: int = 0
    states: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under the titles of their columns."""
    cells = list(map(_printable, zip(*rows, strict=True))) or [[] for _ in columns]
    widths = _widths(columns, cells, width())
    laid_out = [_laid_out(columns[at], cells[at], room) for at, room in widths.items()]
    click.echo("\n".join(map(_line, zip(*laid_out, strict=True))), color=is_coloured())


def is_terminal() -> bool:
    """Tell whether a person reads what is printed; a closed stdout is None."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_coloured() -> bool:
    """Tell whether colours are printed: on a terminal that has them, and whose user does not refuse them."""
    return is_terminal() and not settings.variable("NO_COLOR") and settings.variable("TERM") != "dumb"


def width() -> int | None:
    """Return how many characters a line has: of the terminal, or of `COLUMNS`; None in a pipe, where it is endless."""
    if is_terminal() or (settings.variable("COLUMNS") or "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def say(text: str, hang: int = 2, err: bool = False) -> None:
    """Print lines of prose, whose further lines begin at a column; a word that is too long, as a path, stays whole."""
    room = width()
    for line in text.split("\n"):
        click.echo("\n".join(folded(line, room, hang)) if room else line, err=err)


def dump(value: Any) -> None:
    """Print a value as JSON; of a long list every item has one line, which is written in a third of the time."""
    if isinstance(value, list) and len(value) > _LONG:
        click.echo("[\n" + ",\n".join(map(json.JSONEncoder().encode, value)) + "\n]")
    else:
        click.echo(json.dumps(value, indent=2))


def complain(message: str) -> None:
    """Print a line on stderr."""
    say(message, err=True)


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


def parsed(parse: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """Return a callback of click for an option whose text `parse` understands; its ValueError is a wrong use."""

    def read(_ctx: click.Context, _param: click.Parameter, text: str | None) -> T | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int | None) -> dict[int, int]:
    """Choose the columns to print, by their indices, and the width of each."""
    longest = [max(map(len if "".join(column).isascii() else columns_of, column), default=0) for column in cells]
    whole = {at: max(longest[at], len(column.title)) for at, column in enumerate(columns)}
    if room is None or _total(whole) <= room:
        return whole
    found = {at: whole[at] for at, column in enumerate(columns) if longest[at] or not column.rank}
    for at in found:
        if columns[at].give:
            found[at] = min(
                whole[at], max(columns[at].least, len(columns[at].title), _longest_name(columns[at], cells[at]))
            )
    for at in sorted((at for at in found if columns[at].rank), key=lambda at: -columns[at].rank):
        if _total(found) <= room:
            break
        del found[at]
    for at in sorted(found, key=lambda at: columns[at].rank):
        found[at] += max(0, min(whole[at] - found[at], room - _total(found)))
    return found


def _longest_name(column: Column, cells: Sequence[str]) -> int:
    """Return the room that no cell of names can do without."""
    return max(map(len, " ".join(cells).split()), default=0) if column.give == "names" else 0


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _laid_out(column: Column, cells: Sequence[str], room: int) -> list[str]:
    """Return the title and the cells of a column, all of one width; a cell may have several lines."""
    pad = str.rjust if is_numeric(cells) else str.ljust
    head = _styled(pad(column.title, room), column.title, bold=True)
    if not column.states and "".join(cells).isascii() and max(map(len, cells), default=0) <= room:
        return [head, *[pad(cell, room) for cell in cells]]  # thousands of rows
    return [head, *["\n".join(_cell(column, cell, room, pad)) for cell in cells]]


def _cell(column: Column, cell: str, room: int, pad: Callable[[str, int], str]) -> Iterator[str]:
    """Yield the lines of a cell; letters that take two columns are padded with fewer blanks."""
    colour = _COLOURS.get(cell.partition(":")[0]) if column.states else None
    for part in [cell] if columns_of(cell) <= room else _given(cell, column.give, room):
        yield _styled(pad(part, room - columns_of(part) + len(part)), part, fg=colour)


def _styled(padded: str, text: str, **style: Any) -> str:
    return padded.replace(text, click.style(text, **style)) if text and is_coloured() else padded


def _line(cells: Sequence[str]) -> str:
    """Join the cells of a row, in several lines where one of them has several."""
    line = _GAP.join(cells)
    if "\n" not in line:
        return line.rstrip()
    parts = [cell.split("\n") for cell in cells]
    blank = [" " * columns_of(click.unstyle(one[0])) for one in parts]
    lines = [
        [part[at] if at < len(part) else gap for part, gap in zip(parts, blank, strict=True)]
        for at in range(max(map(len, parts)))
    ]
    return "\n".join(_GAP.join(line).rstrip() for line in lines)


def _given(cell: str, give: str, room: int) -> list[str]:
    """Return the lines of a cell that gives way."""
    if give in ("words", "names"):
        return [shortened(line, room) for line in folded(cell, room, 0)]
    if give == "middle":
        return [shortened(cell, room)]
    return [cut(cell, room) if give else cell]


def _printable(cells: Sequence[str]) -> Sequence[str]:
    """Replace what would steer a terminal; a name of a file may be any bytes."""
    if "".join(cells).isprintable():
        return cells
    return ["".join("?" if unicodedata.category(one) == "Cc" else one for one in cell) for cell in cells]
