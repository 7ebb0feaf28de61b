"""kcl.inspect.explain.pairs: which call of an earlier record is which call of a later one."""

from __future__ import annotations

import pytest

from kcl.inspect.explain.pairs import aligned


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
    """What was inserted or removed has no pair."""
    assert aligned(len(one), len(other), lambda i, j: 0.0 if one[i] == other[j] else 2.0) == pairs
