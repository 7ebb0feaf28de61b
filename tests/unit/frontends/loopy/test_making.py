"""kcl.frontends.loopy.making: loopy's own objects, and what a program put in their places."""

import functools
import importlib

from kcl.frontends.loopy import making, moment

loopy = importlib.import_module("loopy")  # itself, where an import statement gives the face


class TestOwn:
    def test_whatever_stands_in_its_place(self, monkeypatch):
        """loopy's own function is found behind what a program put in its place, which is not loopy's."""
        own = making.own("split_iname")

        def another(*arguments):
            return own(*arguments)

        assert making.is_own("split_iname", loopy.split_iname)
        monkeypatch.setattr(loopy, "split_iname", another)
        assert making.own("split_iname") is own
        assert not making.is_own("split_iname", another)

    def test_methods(self, monkeypatch):
        """A method of loopy's unit counts as replaced while a program has put another in its place."""
        assert moment.loaded() is loopy
        assert not making.is_replaced("executor")
        with monkeypatch.context() as patch:
            patch.setattr(loopy.TranslationUnit, "executor", lambda *_: None)
            assert making.is_replaced("executor")
        assert not making.is_replaced("executor")
        kind = importlib.import_module("loopy.target.pyopencl_execution").PyOpenCLExecutor
        assert not making.is_replaced("executor")
        own = kind.__call__
        monkeypatch.setattr(kind, "__call__", functools.wraps(own)(lambda *_: None))
        assert making.is_replaced("executor")
