"""Texts that fit the width of their output: broken into lines or shortened."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 80  # columns of a terminal, for the output at a program's end
_LEFT_OUT = "..."


def shortened(text: str, width: int) -> str:
    """Shorten a text to a width by leaving out its middle; more of the end is kept, as it matters more in a path."""
    if len(text) <= width:
        return text
    end = max(1, min(2 * width // 3, width - len(_LEFT_OUT) - 1))
    return f"{text[: max(1, width - end - len(_LEFT_OUT))]}{_LEFT_OUT}{text[-end:]}"


def cut(text: str, width: int) -> str:
    """Shorten a text to a width by leaving out its end."""
    return text if len(text) <= width else text[: width - len(_LEFT_OUT)] + _LEFT_OUT


def counted(count: int, singular: str, plural: str) -> str:
    """Write a number with its words: "1 program is", "2 programs are"."""
    return f"{count} {singular if count == 1 else plural}"


def folded(line: str, width: int, hang: int = 2) -> list[str]:
    """Break a line at blanks so that it fits a width; further lines are indented. A longer word stays whole."""
    if len(line) <= width:
        return [line]
    import textwrap

    start = line[: len(line) - len(line.lstrip())]
    wrapper = textwrap.TextWrapper(
        width, start, start + " " * hang, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(line.lstrip())


def alike(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the number of equal letters or lines at the beginning of two texts."""
    pairs = enumerate(zip(first, second, strict=False))
    return next(
        (index for index, pair in pairs if pair[0] != pair[1]), min(len(first), len(second))
    )
