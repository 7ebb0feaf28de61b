"""Texts that fit the width of their output: broken into lines or shortened; and a test for cells with numbers."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

WIDTH = 80  # columns of a terminal, for the output at a program's end
_LEFT_OUT = "..."
_LINES = 4  # of a word


def columns_of(text: str) -> int:
    """Return the number of columns that a text takes: some letters take two, some none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def shortened(text: str, width: int) -> str:
    """Leave out the middle of a text for lack of room; the end stays longer, as it matters more in a path."""
    if columns_of(text) <= width:
        return text
    end = max(1, min(2 * width // 3, width - len(_LEFT_OUT) - 1))
    return f"{text[: max(1, width - end - len(_LEFT_OUT))]}{_LEFT_OUT}{text[-end:]}"


def cut(text: str, width: int) -> str:
    """Leave out the end of a text for lack of room."""
    if columns_of(text) <= width:
        return text
    kept = text[: width - len(_LEFT_OUT)]
    while columns_of(kept) > width - len(_LEFT_OUT):  # a letter may take two columns
        kept = kept[:-1]
    return kept + _LEFT_OUT


def counted(count: int, one: str, many: str) -> str:
    """Write a number with its words: "1 program is", "2 programs are"."""
    return f"{count} {one if count == 1 else many}"


def folded(line: str, width: int, hang: int = 2) -> list[str]:
    """Break a line that is too long between words; further lines are indented. A word that is too long stays whole."""
    if columns_of(line) <= width:
        return [line]
    import textwrap

    start = line[: len(line) - len(line.lstrip())]
    further = start + " " * hang
    found = textwrap.wrap(
        line.lstrip(),
        width,
        initial_indent=start,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return found or [""]


def broken(word: str, width: int) -> list[str]:
    """Break a word that is too long: after one of "=,./", else anywhere; a very long word loses its middle."""
    rest, found = shortened(word, _LINES * width), []
    while columns_of(rest) > width:
        end = next(at for at in range(min(len(rest), width), 0, -1) if at == 1 or columns_of(rest[:at]) <= width)
        at = max(rest.rfind(mark, 0, end) for mark in "=,./") + 1 or end
        found.append(rest[:at])
        rest = rest[at:]
    return [*found, rest]


def is_numeric(cells: Iterable[str]) -> bool:
    """Tell whether the cells of a column are numbers, with a unit or without; empty cells do not count."""
    number = None
    for number in filter(None, cells):  # the first cell decides for most columns
        if not number.partition(" ")[0].replace(".", "", 1).isdigit():
            return False
    return number is not None


def alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal letters or lines at the beginning of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, pair in pairs if pair[0] != pair[1]), min(len(one), len(other)))
