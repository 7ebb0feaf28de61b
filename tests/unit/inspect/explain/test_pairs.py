"""kcl.inspect.explain.pairs: which call of an earlier record is which call of a later one."""

from __future__ import annotations

import pytest

from kcl.inspect.explain.pairs import aligned, pieces, referenced, written


def test_references():
    """References to earlier calls are found, not those to later ones nor what stands in quotes."""
    assert referenced("call 1", 3) == (0,)
    assert referenced("[call 2, call 1]", 3) == (1, 0)
    assert referenced("'call 1'", 3) == referenced('"call 1"', 3) == referenced("call 3", 3) == ()


def test_written():
    """A reference is replaced, and a text that looks like one stays."""
    assert written("(call 1, 'call 1')", 2, lambda index: f"<{index}>") == "(<0>, 'call 1')"


def test_pieces():
    """A short argument is one piece, a long one is compared by its lines and items."""
    assert list(pieces("a", "1, 2")) == [("a", "1, 2")]
    assert len(list(pieces("a", ", ".join(map(str, range(30)))))) == 30


@pytest.mark.parametrize(
    ("one", "other", "pairs"),
    [
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abc", "xabc", [(0, 1), (1, 2), (2, 3)]),
        ("abc", "ac", [(0, 0), (2, 1)]),
        ("", "abc", []),
        ("ab" + "c" * 40, "c" * 40, [(index + 2, index) for index in range(40)]),
    ],
)
def test_alignment(one, other, pairs):
    """The cheapest alignment leaves out what was inserted or removed."""
    assert aligned(len(one), len(other), lambda i, j: 0.0 if one[i] == other[j] else 2.0) == pairs
