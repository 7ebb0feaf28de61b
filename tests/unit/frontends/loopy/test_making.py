"""kcl.frontends.loopy.making: a record is carried out once, and loopy's own objects answer what a program asks."""

import importlib

from recorded_units import make, waits

import kcl.loopy as lp
from kcl.frontends.loopy import making, moment, unmade

loopy = importlib.import_module("loopy")  # itself, where an import statement gives the face


class TestMake:
    def test_once(self):
        """A record that waits is carried out at the first question, with those that it comes from, and then kept."""
        for _ in range(2):
            unit = lp.split_iname(make("a[i] = 3*i"), "i", 4)
        assert waits(unit)
        record = unmade.record_of(unit)
        made = making.make(record)
        assert making.make(record) is made
        assert record.inputs[0].is_made
        assert made == loopy.split_iname(record.inputs[0].real(), "i", 4)


class TestOwn:
    def test_whatever_stands_in_its_place(self, monkeypatch):
        """loopy's own function is found behind what a program put in its place, which is not loopy's."""
        own = making.own("split_iname")

        def another(*arguments):
            """Stand in the place of loopy's."""
            return own(*arguments)

        assert making.is_own("split_iname", loopy.split_iname)
        monkeypatch.setattr(loopy, "split_iname", another)
        assert making.own("split_iname") is own
        assert not making.is_own("split_iname", another)

    def test_methods(self, monkeypatch):
        """A method of loopy's unit counts as replaced while a program has put another in its place."""
        assert moment.loaded() is loopy
        assert not making.is_replaced("executor")
        monkeypatch.setattr(loopy.TranslationUnit, "executor", lambda *_: None)
        assert making.is_replaced("executor")
