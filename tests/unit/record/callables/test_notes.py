"""kcl.record.callables.notes: parts, libraries and reasons of one walk."""

from __future__ import annotations

import pytest

from kcl.errors import UnknownInput
from kcl.record.callables.distributions import DISTRIBUTION, KCL, PYTHON, Owner
from kcl.record.callables.notes import Notes


class TestNotes:
    def test_unique(self) -> None:
        """The second of things that bear one name is numbered; a name that is none is quoted."""
        notes = Notes("recipe")
        assert [notes.unique(name) for name in ("f", "A.f", "f", "a b")] == ["f", "A.f", "f#2", "'a b'"]

    def test_library(self) -> None:
        """A name in a library leads to its distribution, and to the front end that it belongs to."""
        notes = Notes("recipe")
        assert notes.library("loopy", ("split_iname",), Owner(DISTRIBUTION, "loopy")) == "loopy.split_iname"
        assert notes.library("json", (), Owner(PYTHON)) == "json"
        assert notes.library("kcl", ("Source",), Owner(KCL)) == "kcl.Source"
        assert (notes.reached, notes.front_ends) == ({"loopy"}, {"loopy", "opencl"})

    def test_refusal(self) -> None:
        """A reason against the key is raised with the place, unless it is excused."""
        with pytest.raises(UnknownInput, match=r"^recipe: time.time reads the time"):
            Notes("recipe").judge("time.time")
        Notes("recipe", lambda reason: "reads the time" in reason).judge("time.time")
