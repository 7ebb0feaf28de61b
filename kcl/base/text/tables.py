"""Tables that fit the width of their output.

For lack of room blank columns are left out first, then the columns of the highest rank. The remaining cells are
shortened by the rule of their column. With endless room no column is left out, and no cell is cut.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kcl.base.text.layout import broken, columns_of, cut, folded, is_numeric, shortened

TITLE = "title"
_GAP = "  "


class Column(NamedTuple):
    """A column of a table: its title, and the rule that shortens its cells for lack of room.

    A column of rank 0 always stays. `give` is the rule, down to `least` characters: "end" and "middle" leave characters
    out there, "words" continues in the next line, and so does "names", which keeps words whole. Without a rule the
    cells stay whole, so that a key can be pasted. The first word of a cell of `states` decides its style.
    """

    title: str
    rank: int = 0
    give: str = ""
    least: int = 0
    states: bool = False


# Returns a text in its style; the kind is TITLE, or the first words of a cell in a column of states.
Style = Callable[[str, str], str]


def plain(text: str, _kind: str) -> str:
    """Return a text as it is."""
    return text


def lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None = None, style: Style = plain
) -> list[str]:
    """Lay out rows of text under the titles of their columns: numbers to the right, words to the left."""
    cells = list(map(_printable, zip(*rows, strict=True))) or [[] for _ in columns]
    widths = _widths(columns, cells, room)
    laid_out = [_laid_out(columns[at], cells[at], width, style) for at, width in widths.items()]
    blank = [" " * width for width in widths.values()]
    return [line for row in zip(*laid_out, strict=True) for line in _lines(row, blank)]


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
    """Return the least room that the cells of names need."""
    return max(map(len, " ".join(cells).split()), default=0) if column.give == "names" else 0


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _laid_out(column: Column, cells: Sequence[str], room: int, style: Style) -> list[str]:
    """Return the title and the cells of a column, all of one width; a cell may have several lines."""
    pad = str.rjust if is_numeric(cells) else str.ljust
    head = _styled(pad(column.title, room), column.title, TITLE, style)
    if not column.states and "".join(cells).isascii() and max(map(len, cells), default=0) <= room:
        return [head, *[pad(cell, room) for cell in cells]]  # thousands of rows
    return [head, *["\n".join(_cell(column, cell, room, pad, style)) for cell in cells]]


def _cell(column: Column, cell: str, room: int, pad: Callable[[str, int], str], style: Style) -> Iterator[str]:
    """Yield the lines of a cell; letters that take two columns are padded with fewer blanks."""
    for part in [cell] if columns_of(cell) <= room else _given(cell, column.give, room):
        padded = pad(part, room - columns_of(part) + len(part))
        yield _styled(padded, part, cell.partition(":")[0], style) if column.states else padded


def _styled(padded: str, text: str, kind: str, style: Style) -> str:
    return padded.replace(text, style(text, kind)) if text else padded


def _lines(cells: Sequence[str], blank: Sequence[str]) -> list[str]:
    """Join the cells of a row, in several lines where one of them has several."""
    line = _GAP.join(cells)
    if "\n" not in line:
        return [line.rstrip()]
    parts = [cell.split("\n") for cell in cells]
    height = max(map(len, parts))
    columns = [part + [gap] * (height - len(part)) for part, gap in zip(parts, blank, strict=True)]
    return [_GAP.join(line).rstrip() for line in zip(*columns, strict=True)]


def _given(cell: str, give: str, room: int) -> list[str]:
    """Return the lines of a cell, shortened by its rule."""
    if give in ("words", "names"):
        return [part for line in folded(cell, room, 0) for part in broken(line, room)]
    if give == "middle":
        return [shortened(cell, room)]
    return [cut(cell, room) if give else cell]


def _printable(cells: Sequence[str]) -> Sequence[str]:
    """Replace characters that would steer a terminal; a file's name may be any bytes."""
    if "".join(cells).isprintable():
        return cells
    return ["".join("?" if unicodedata.category(one) == "Cc" else one for one in cell) for cell in cells]
