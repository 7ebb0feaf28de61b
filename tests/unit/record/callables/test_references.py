"""kcl.record.callables.references: one place in code that refers to something outside of it."""

from __future__ import annotations

from kcl.record.callables.references import GLOBAL, Reference
from kcl.record.callables.scan import references


def recipe():
    """Refer to a global on the second line of the body."""
    first = 1
    return geometry.tiles.square(first)  # noqa: F821


def test_dotted():
    """A reference is written with the attributes that are taken of it."""
    assert Reference(GLOBAL, "geometry", 0, ("tiles", "square"), recipe.__code__, 0).dotted == "geometry.tiles.square"


def test_line():
    """A reference knows its line in the file."""
    (found,) = [one for one in references(recipe.__code__).chains if one.name == "geometry"]
    assert found.dotted == "geometry.tiles.square"
    assert found.line == recipe.__code__.co_firstlineno + 3


def test_no_line():
    """A place behind the end of the code has none."""
    assert Reference(GLOBAL, "a", 0, (), recipe.__code__, 10**6).line is None
