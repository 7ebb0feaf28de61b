"""kcl.base.text.layout: texts that fit where they are printed."""

from __future__ import annotations

import pytest

from kcl.base.text.layout import broken, columns_of, counted, cut, folded, is_numeric, shortened


@pytest.mark.parametrize(("width", "short"), [(20, "/one/two/three/four"), (16, "/on...three/four")])
def test_shortened(width, short):
    """What is too long leaves out its middle; the end is the larger part."""
    assert shortened("/one/two/three/four", width) == short


@pytest.mark.parametrize(("width", "short"), [(6, "abcdef"), (5, "ab...")])
def test_cut(width, short):
    """What is too long leaves out its end."""
    assert cut("abcdef", width) == short


def test_cut_wide_letters():
    """Letters that take two columns are cut by columns, and what has room stays whole."""
    assert cut("漢字漢字漢字", 12) == "漢字漢字漢字"
    assert cut("漢字漢字漢字", 10) == "漢字漢..."


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("π", 1), ("漢字", 4), ("e\u0301", 1)])
def test_columns(text, width):
    """Some letters take two columns, some none."""
    assert columns_of(text) == width


@pytest.mark.parametrize(("count", "text"), [(0, "0 programs are"), (1, "1 program is"), (2, "2 programs are")])
def test_counted(count, text):
    """One thing has other words than several."""
    assert counted(count, "program is", "programs are") == text


def test_folded():
    """A long line is broken between words; its further lines begin behind those of the first, and no word is broken."""
    assert folded("  one two three", 80) == ["  one two three"]
    assert folded("  one two three", 9) == ["  one two", "    three"]
    assert folded("a " + "x" * 20, 9, hang=0) == ["a", "x" * 20]


@pytest.mark.parametrize(
    ("word", "lines"),
    [
        ("block=16", ["block=16"]),
        ("dtype=numpy.float64", ["dtype=numpy.", "float64"]),
        ("a" * 20, ["a" * 12, "a" * 8]),
        ("漢字" * 4, ["漢字" * 3, "漢字"]),
    ],
)
def test_broken(word, lines):
    """A word that has no room is broken after a mark, else anywhere; nothing of it is lost."""
    assert broken(word, 12) == lines


def test_broken_long():
    """Of a very long word the ends are left."""
    assert "".join(broken("x" * 1000, 12)) == "x" * 13 + "..." + "x" * 32


@pytest.mark.parametrize(
    ("cells", "are"), [(["1", "2.5 s", ""], True), (["1", "never"], False), (["", ""], False), ([], False)]
)
def test_numeric(cells, are):
    """Numbers may have a unit, and empty cells do not count."""
    assert is_numeric(cells) is are
