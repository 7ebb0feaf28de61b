"""kcl.inspect.explain.lines: the lines and elements that differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcl.inspect.explain.lines import alike, hunks, in_turn, short_diff


def test_alike():
    """Letters and lines are counted up to the first that differs."""
    assert (alike("abc", "abd"), alike(["a", "b"], ["a"]), alike("", "a")) == (2, 1, 0)


def test_in_turn():
    """An element that was exchanged stands below the old one; one of several lines takes several."""
    assert in_turn(hunks(["a", "b", "c"], ["x", "y\nz", "c"])) == ["- a", "+ x", "- b", "+ y", "+ z"]


class TestDiff:
    def test_short(self):
        """Many changed lines are cut, and counted."""
        one, other = ("\n".join(f"{letter}{i}" for i in range(20)) for letter in "ab")
        lines = short_diff(one, other)
        assert len(lines) == 9
        assert lines[-1] == "... 32 more lines"

    def test_long_lines(self):
        """Of a long line that changed the part is shown that differs, also behind the width."""
        before = f"void f({'global double *restrict a, ' * 6}int n)"
        lines = short_diff(before, before.replace("int n", "long n"))
        assert [line[-8:] for line in lines] == [", int n)", " long n)"]
        assert all(line[1:4] == "..." and len(line) <= 110 for line in lines)
        early = [f"void f(int n{size}, {'global double *restrict a, ' * 6})" for size in (4, 8)]
        assert [line[:14] for line in short_diff(*early)] == ["-void f(int n4", "+void f(int n8"]

    def test_large(self):
        """One line of a long text is found at once, with one line around it."""
        lines = [f"line {i}" for i in range(100_000)]
        other = [*lines[:70_000], "new", *lines[70_000:]]
        assert short_diff("\n".join(lines), "\n".join(other)) == [" line 69999", "+new", " line 70000"]

    @given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
    def test_any(self, one, other):
        """Taking the removed lines out and putting the added ones in leads from one text to the other."""
        lines = short_diff("\n".join(one), "\n".join(other))
        if lines and not lines[-1].startswith("..."):
            removed = sum(line.startswith("-") for line in lines)
            added = sum(line.startswith("+") for line in lines)
            assert len(one) - removed + added == len(other)
        assert bool(lines) == (one != other)
