"""kcl.base.text.layout: texts that fit where they are printed."""

import pytest

from kcl.base.text.layout import counted, cut, folded, shortened


def test_too_long():
    """What is too long leaves out its middle, of which the end is the larger part, or its end."""
    path = "/one/two/three/four"
    assert [shortened(path, width) for width in (20, 16)] == [path, "/on...three/four"]
    assert [cut("abcdef", width) for width in (6, 5)] == ["abcdef", "ab..."]


@pytest.mark.parametrize(
    ("count", "words"), [(0, "programs are"), (1, "program is"), (2, "programs are")]
)
def test_one_thing_has_other_words_than_several(count, words):
    assert counted(count, "program is", "programs are") == f"{count} {words}"


def test_folded():
    """A long line is broken between words; its further lines begin behind those of the first, and no word is broken."""
    assert folded("  one two three", 80) == ["  one two three"]
    assert folded("  one two three", 9) == ["  one two", "    three"]
    assert folded("a " + "x" * 20, 9, hang=0) == ["a", "x" * 20]
