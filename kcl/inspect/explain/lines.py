"""The first differing lines or elements of two texts or lists, as text for the user."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from kcl.base.text.layout import alike, cut

_SHOWN = 8  # lines of a diff
_WIDTH = 110  # of a line
_BEFORE = 40  # characters of a long line before the first that differs
_COMPARED = 400  # lines or elements


class Hunk(NamedTuple):
    """Elements that were exchanged: the number of the first before and after, and their texts."""

    old: int
    new: int
    gone: Sequence[str]
    added: Sequence[str]


def hunks(before: Sequence[str], after: Sequence[str]) -> list[Hunk]:
    """Return the elements that differ between two lists; in very long lists the rest is one piece."""
    import difflib

    start = alike(before, after)
    end = min(alike(before[::-1], after[::-1]), len(before) - start, len(after) - start)
    one, other = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(one), len(other)) > _COMPARED:
        return [Hunk(start + 1, start + 1, one, other)]
    steps = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return [Hunk(start + i + 1, start + k + 1, one[i:j], other[k:m]) for tag, i, j, k, m in steps if tag != "equal"]


def short_diff(before: str, after: str) -> list[str]:
    """Return the first changed lines of a text, each after "-", "+" or a blank, as `diff -u` writes them."""
    one, other = (textwrap.dedent(text).splitlines() for text in (before, after))
    lines, end = list[str](), 0
    for hunk in hunks(one, other):
        start, pairs = hunk.old - 1, list(_pairs(hunk))
        lines += [f" {line}" for line in one[max(end, start - 1) : start]]  # one line around
        lines += [f"-{gone}" for gone, _added in pairs if gone is not None]
        lines += [f"+{added}" for _gone, added in pairs if added is not None]
        end = start + len(hunk.gone) + 1
        lines += [f" {line}" for line in one[end - 1 : end]]
    return _first_few([line.rstrip() for line in lines if line.strip()])


def in_turn(found: Sequence[Hunk]) -> list[str]:
    """Write the elements that differ, the old one and the new one of each in turn."""
    return _first_few(
        [
            f"{sign} {line}"
            for hunk in found
            for pair in _pairs(hunk)
            for sign, text in zip("-+", pair, strict=True)
            if text is not None
            for line in text.splitlines() or [""]
        ]
    )


def _first_few(lines: list[str]) -> list[str]:
    """Return the lines of a diff, of a long one the first few and how many more there are."""
    more = [f"... {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    return [*(cut(line, _WIDTH) for line in lines[:_SHOWN]), *more]


def _pairs(hunk: Hunk) -> Iterator[tuple[str | None, str | None]]:
    """Yield the exchanged elements; two long lines lose their common beginning, else their difference is cut off."""
    for gone, added in zip_longest(hunk.gone, hunk.added):
        start = 0
        if gone and added and max(len(gone), len(added)) > _WIDTH and "\n" not in gone + added:
            start = alike(gone, added) - _BEFORE
        yield (gone, added) if start + 2 * _BEFORE <= _WIDTH else (f"...{gone[start:]}", f"...{added[start:]}")
