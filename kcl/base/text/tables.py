"""Tables that fit the width of their output.

If a table is too wide, empty columns are left out first, then the columns of the highest rank (`Column.rank`). The
remaining cells are shortened as `Column.give` says. With `room=None` nothing is left out or shortened.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from kcl.base.text.layout import cut, shortened

_GAP = "  "
Row = TypeVar("Row")


class Column(NamedTuple):
    """A column of a table: its title, and the rule that shortens its cells if the table is too wide.

    A column of rank 0 is never left out. `give` says how cells are shortened, down to `least` characters:

        end, middle   leaves characters out there
        words         continues in the next line
        names         does as well, and keeps words whole
        (empty)       keeps the cells whole, so that a key can be pasted
    """

    title: str
    rank: int = 0
    give: str = ""
    least: int = 0


# The columns of a table of things, each with the function that writes its cell for a thing.
Columns = Sequence[tuple[Column, Callable[[Row], str]]]


def lines_of(columns: Columns[Row], rows: Iterable[Row], room: int | None = None) -> list[str]:
    """Return the lines of a table with a row for each thing; `columns` has a title and a function for each cell."""
    cells = [[write(row) for _column, write in columns] for row in rows]
    return lines([column for column, _write in columns], cells, room)


def lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None = None
) -> list[str]:
    """Return the lines of a table of texts: numbers are aligned to the right, words to the left."""
    texts = [[_printable(row[index]) for row in rows] for index in range(len(columns))]
    widths = _choose_widths(columns, texts, room)
    shown = [(columns[index], texts[index], width) for index, width in widths.items()]
    form = _GAP.join(
        f"{{:{'>' if _is_numeric(cells) else '<'}{width}}}" for _column, cells, width in shown
    )
    parts: Iterable[tuple[str, ...]] = zip(
        *([column.title, *cells] for column, cells, _width in shown), strict=True
    )
    # With endless room no cell is shortened, and each row is one line.
    if room is not None:
        rules = [(column.give, width) for column, _cells, width in shown]
        parts = (
            line
            for cells in parts
            for line in itertools.zip_longest(
                *(_shorten(cell, *rule) for cell, rule in zip(cells, rules, strict=True)),
                fillvalue="",
            )
        )
    return [form.format(*line).rstrip() for line in parts]


def _choose_widths(
    columns: Sequence[Column], texts: Sequence[Sequence[str]], room: int | None
) -> dict[int, int]:
    """Choose the columns to print, by their indices, and the width of each."""
    longest = [max(map(len, cells), default=0) for cells in texts]
    whole = {index: max(longest[index], len(column.title)) for index, column in enumerate(columns)}
    if room is None or _total(whole) <= room:
        return whole
    widths = {}
    for index, column in enumerate(columns):
        if not longest[index] and column.rank:
            continue
        words = " ".join(texts[index]).split() if column.give == "names" else ()
        least = max(column.least, len(column.title), *map(len, words))
        widths[index] = min(whole[index], least) if column.give else whole[index]
    by_rank = sorted(widths, key=lambda index: columns[index].rank)
    for index in reversed(by_rank):
        if columns[index].rank and _total(widths) > room:
            del widths[index]
    for index in filter(widths.__contains__, by_rank):
        widths[index] += max(0, min(whole[index] - widths[index], room - _total(widths)))
    return widths


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _shorten(cell: str, give: str, width: int) -> list[str]:
    """Return the lines of a cell, shortened by its rule."""
    if len(cell) <= width or not give:
        return [cell]
    if give in ("words", "names"):
        import textwrap

        folded = textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False)
        return [line[at : at + width] for line in folded for at in range(0, len(line), width)]
    return [shortened(cell, width) if give == "middle" else cut(cell, width)]


def _is_numeric(cells: Sequence[str]) -> bool:
    """Return True if the cells of a column are numbers, with a unit or without; empty cells do not count."""
    return any(cells) and all(
        cell.partition(" ")[0].replace(".", "", 1).isdigit() for cell in cells if cell
    )


def _printable(cell: str) -> str:
    """Replace control characters, since a file's name may hold any bytes."""
    if cell.isprintable():
        return cell
    # A lone surrogate stays: it stands for a byte of a path.
    return "".join(c if c.isprintable() or "\ud800" <= c <= "\udfff" else "?" for c in cell)
