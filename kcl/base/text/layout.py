"""Texts that fit where they are printed: broken into lines, shortened, and which cells of a table are numbers."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

WIDTH = 80  # columns of a terminal, for what is printed as a program ends
_LEFT_OUT = "..."
_LINES = 4  # of a word


def columns_of(text: str) -> int:
    """Return how many columns a text takes: some letters take two, some none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def shortened(text: str, width: int) -> str:
    """Leave the middle of a text out where it has no room; the end, which of a path says more, is the larger part."""
    if columns_of(text) <= width:
        return text
    end = max(1, min(2 * width // 3, width - len(_LEFT_OUT) - 1))
    return f"{text[: max(1, width - end - len(_LEFT_OUT))]}{_LEFT_OUT}{text[-end:]}"


def cut(text: str, width: int) -> str:
    """Leave the end of a text out where it has no room."""
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
    """Break a word that has no room: after one of "=,./", else anywhere; of a very long word the middle is left out."""
    rest, found = shortened(word, _LINES * width), []
    while columns_of(rest) > width:
        end = next(at for at in range(min(len(rest), width), 0, -1) if at == 1 or columns_of(rest[:at]) <= width)
        at = max(rest.rfind(mark, 0, end) for mark in "=,./") + 1 or end
        found.append(rest[:at])
        rest = rest[at:]
    return [*found, rest]


def is_numeric(cells: Iterable[str]) -> bool:
    """Tell whether the cells of a column are numbers, with a unit or without; those that are empty do not count."""
    number = None
    for number in filter(None, cells):  # most columns say so in their first line
        if not number.partition(" ")[0].replace(".", "", 1).isdigit():
            return False
    return number is not None
