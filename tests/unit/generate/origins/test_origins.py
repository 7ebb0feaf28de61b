"""kcl.generate.origins: a recipe that takes long in a warm run is named once."""

from __future__ import annotations

import sys

import pytest

import kcl
from kcl.generate import origins


@pytest.fixture
def said(recwarn):
    """Return the warnings of kcl: (text, file, line)."""
    return lambda: [(str(w.message), w.filename, w.lineno) for w in recwarn if w.category is kcl.CacheWarning]


class TestSlowRecipe:
    def test_named_once(self, said):
        """The warning names the recipe, its time, the cure and the line of the user; it is given once per name."""
        for _ in range(2):
            origins.advise("expansion", 0.25)
        line = sys._getframe().f_lineno - 1
        origins.advise("another", 0.06)
        (text, file, number), (other, _file, _number) = said()
        assert text.startswith("recipe 'expansion' ran for 250 ms")
        assert "@kcl.kernel(pure=True, version='1') skips it" in text
        assert (file, number) == (__file__, line)
        assert other.startswith("recipe 'another' ran for 60 ms")

    def test_fast(self, said):
        """A recipe that takes 50 ms or less is not named."""
        origins.advise("quick", 0.05)
        assert not said()

    def test_warnings_that_are_errors(self, monkeypatch):
        """Where warnings are errors nothing is raised."""
        monkeypatch.setattr("warnings.filters", [("error", None, Warning, None, 0)])
        origins.advise("expansion", 0.25)
