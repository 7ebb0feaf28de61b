"""loopy's warning categories without loopy: they count as loopy's own, on both sides of a filter."""

from __future__ import annotations

import importlib
import warnings

import pytest

import kcl.loopy as lp
from kcl.record import conditions

loopy = importlib.import_module("loopy")
NAMES = sorted(conditions.WARNINGS)


class TestCategories:
    @pytest.mark.parametrize("name", NAMES)
    def test_they_look_like_loopys(self, name):
        """Name, module and bases are those of loopy's class."""
        mine, own = conditions.WARNINGS[name], getattr(loopy.diagnostic, name)
        assert (mine.__module__, mine.__name__) == (own.__module__, own.__name__)
        for other in NAMES:
            others = getattr(loopy.diagnostic, other)
            assert issubclass(mine, conditions.WARNINGS[other]) == issubclass(own, others)
            assert issubclass(own, conditions.WARNINGS[other]) == issubclass(own, others)
            assert isinstance(own("x"), conditions.WARNINGS[other]) == isinstance(own("x"), others)
        assert issubclass(own, UserWarning) == issubclass(mine, UserWarning)
        assert not issubclass(DeprecationWarning, mine)

    @pytest.mark.parametrize("name", NAMES)
    def test_the_face_gives_loopys_where_it_is_imported(self, name):
        """With loopy imported the face has loopy's own classes."""
        assert getattr(lp.diagnostic, name) is getattr(loopy.diagnostic, name)

    def test_filters(self):
        """A filter that names the category of before the import matches loopy's warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", conditions.WARNINGS["LoopyWarning"])
            with pytest.raises(loopy.LoopyWarning):
                warnings.warn("x", loopy.LoopyWarning, stacklevel=1)
            with pytest.raises(loopy.diagnostic.DirectCallUncachedWarning):
                warnings.warn("x", loopy.diagnostic.DirectCallUncachedWarning, stacklevel=1)
            warnings.warn("x", loopy.diagnostic.LoopyAdvisory, stacklevel=1)

    def test_filters_in_a_program(self, child):
        """A program that silences a category before anything is imported hears nothing of it, then and later."""
        code = """
            import json, sys, warnings
            import kcl.loopy as lp
            from kcl.loopy import LoopyWarning
            caught = []
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", LoopyWarning)
                before = "loopy" in sys.modules
                lp.make_kernel("{[i]: 0<=i<16}", "a[i] = i")
            with warnings.catch_warnings(record=True) as again:
                warnings.simplefilter("always")
                lp.make_kernel("{[i]: 0<=i<16}", "b[i] = i")
            print(json.dumps([before, "loopy" in sys.modules, len(heard), [one.category.__name__ for one in again]]))
        """
        assert child.json(code) == [False, True, 0, ["LoopyWarning"]]
        assert child.json(code) == [False, False, 0, ["LoopyWarning"]]
