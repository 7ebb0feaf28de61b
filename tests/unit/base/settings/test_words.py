"""kcl.base.settings.words: what is said of each setting."""

from kcl.base import settings
from kcl.base.settings.words import WORDS


def test_words():
    """Each setting has words, and a line of a table holds its effect."""
    assert [*WORDS] == [setting.variable for setting in settings.SETTINGS]
    assert all(0 < len(words.effect) < 70 for words in WORDS.values())
