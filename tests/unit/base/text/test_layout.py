"""kcl.base.text.layout: texts that fit where they are printed."""

import pytest

from kcl.base.text.layout import counted, cut, folded, shortened


@pytest.mark.parametrize(
    ("width", "short"), [(20, "/one/two/three/four"), (16, "/on...three/four")]
)
def test_shortened(width, short):
    """What is too long leaves out its middle; the end is the larger part."""
    assert shortened("/one/two/three/four", width) == short


@pytest.mark.parametrize(("width", "short"), [(6, "abcdef"), (5, "ab...")])
def test_what_is_too_long_leaves_out_its_end(width, short):
    assert cut("abcdef", width) == short


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 programs are"), (1, "1 program is"), (2, "2 programs are")]
)
def test_one_thing_has_other_words_than_several(count, text):
    assert counted(count, "program is", "programs are") == text


def test_folded():
    """A long line is broken between words; its further lines begin behind those of the first, and no word is broken."""
    assert folded("  one two three", 80) == ["  one two three"]
    assert folded("  one two three", 9) == ["  one two", "    three"]
    assert folded("a " + "x" * 20, 9, hang=0) == ["a", "x" * 20]
