"""kcl.base.settings.words: what is said of each setting."""

from kcl.base import settings
from kcl.base.settings.words import WORDS


def test_each_setting_has_words_and_a_line_of_a_table_holds_its_effect():
    assert [*WORDS] == [setting.variable for setting in settings.SETTINGS]
    assert all(0 < len(words.effect) < 70 for words in WORDS.values())
