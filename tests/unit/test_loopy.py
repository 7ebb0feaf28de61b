"""kcl.loopy: the face of loopy under its public name."""

from __future__ import annotations

import importlib

import pytest

import kcl.loopy as lp


def test_nothing_is_imported(child):
    """Naming a function, and making a unit in no recipe, is left to loopy; the import alone is not."""
    code = """
        import json, sys
        import kcl.loopy as lp
        lp.make_kernel, lp.split_iname
        print(json.dumps("loopy" in sys.modules))
        """
    assert child.json(code) is False


def test_same_function():
    """A function of the face is one object."""
    assert lp.split_iname is lp.split_iname


def test_unknown_name():
    """A name that loopy lacks is an AttributeError."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lp.no_such_name
    assert not hasattr(lp, "__no_such_name__")


def test_listed():
    """The names are loopy's."""
    assert set(importlib.import_module("loopy").__all__) <= set(dir(lp))
