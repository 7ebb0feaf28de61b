"""Tables that fit the width of their output.

For lack of room blank columns are left out first, then the columns of the highest rank. The remaining cells are
shortened by the rule of their column. With endless room no column is left out, and no cell is cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from kcl.base.text.layout import cut, shortened

_GAP = "  "
Row = TypeVar("Row")


class Column(NamedTuple):
    """A column of a table: its title, and the rule that shortens its cells for lack of room.

    A column of rank 0 always stays. `give` is the rule, down to `least` characters: "end" and "middle" leave characters
    out there, "words" continues in the next line, and so does "names", which keeps words whole. Without a rule the
    cells stay whole, so that a key can be pasted.
    """

    title: str
    rank: int = 0
    give: str = ""
    least: int = 0


# The columns of a table of things, each with the function that writes its cell for a thing.
Columns = Sequence[tuple[Column, Callable[[Row], str]]]


def lines_of(columns: Columns[Row], rows: Iterable[Row], room: int | None = None) -> list[str]:
    """Lay out a row for each thing."""
    cells = [[write(row) for _column, write in columns] for row in rows]
    return lines([column for column, _write in columns], cells, room)


def lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None = None
) -> list[str]:
    """Lay out rows of text under the titles of their columns: numbers to the right, words to the left."""
    cells = [[_printable(cell) for cell in column] for column in zip(*rows, strict=True)] or [
        [] for _ in columns
    ]
    widths = _widths(columns, cells, room)
    blank = [" " * width for width in widths.values()]
    laid_out = [_laid_out(columns[at], cells[at], width) for at, width in widths.items()]
    parts = (line for row in zip(*laid_out, strict=True) for line in itertools.zip_longest(*row))
    return [
        _GAP.join(part or gap for part, gap in zip(line, blank, strict=True)).rstrip()
        for line in parts
    ]


def _widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int | None
) -> dict[int, int]:
    """Choose the columns to print, by their indices, and the width of each."""
    longest = [max(map(len, column), default=0) for column in cells]
    whole = {at: max(longest[at], len(column.title)) for at, column in enumerate(columns)}
    if room is None or _total(whole) <= room:
        return whole
    widths = {at: whole[at] for at, column in enumerate(columns) if longest[at] or not column.rank}
    for at in widths:
        if columns[at].give:
            name = (
                max(map(len, " ".join(cells[at]).split()), default=0)
                if columns[at].give == "names"
                else 0
            )
            widths[at] = min(whole[at], max(columns[at].least, len(columns[at].title), name))
    for at in sorted((at for at in widths if columns[at].rank), key=lambda at: -columns[at].rank):
        if _total(widths) <= room:
            break
        del widths[at]
    for at in sorted(widths, key=lambda at: columns[at].rank):
        widths[at] += max(0, min(whole[at] - widths[at], room - _total(widths)))
    return widths


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _laid_out(column: Column, cells: Sequence[str], room: int) -> list[list[str]]:
    """Return the lines of the title and of each cell of a column, all of one width."""
    pad = str.rjust if _is_numeric(cells) else str.ljust
    return [
        [pad(part, room) for part in _given(cell, column.give, room)]
        for cell in [column.title, *cells]
    ]


def _given(cell: str, give: str, room: int) -> list[str]:
    """Return the lines of a cell, shortened by its rule."""
    if len(cell) <= room or not give:
        return [cell]
    if give in ("words", "names"):
        import textwrap

        folded = textwrap.wrap(cell, room, break_long_words=False, break_on_hyphens=False)
        return [line[at : at + room] for line in folded for at in range(0, len(line), room)]
    return [shortened(cell, room) if give == "middle" else cut(cell, room)]


def _is_numeric(cells: Sequence[str]) -> bool:
    """Return True if the cells of a column are numbers, with a unit or without; empty cells do not count."""
    words = [cell.partition(" ")[0].replace(".", "", 1) for cell in cells if cell]
    return bool(words) and all(map(str.isdigit, words))


def _printable(cell: str) -> str:
    """Replace characters that would steer a terminal; a file's name may be any bytes."""
    if cell.isprintable():
        return cell
    # A lone surrogate stays: it stands for a byte of a path.
    return "".join(c if c.isprintable() or "\ud800" <= c <= "\udfff" else "?" for c in cell)
