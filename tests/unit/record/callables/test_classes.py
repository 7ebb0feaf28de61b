"""kcl.record.callables.classes: what a class gives its instances, and what an instance holds."""

from __future__ import annotations

import abc
import dataclasses
import functools

from pymbolic import primitives

from kcl.record.callables.classes import class_attributes, content, is_memo, is_plain, is_remembered, registered


class Tile:
    """A class with a slot, a method, a cached property and a hash that is remembered."""

    __slots__ = ("__dict__", "width")
    factor = 2

    def __init__(self, width):
        self.width = width

    @functools.cached_property
    def area(self):
        return self.width * self.width

    def __hash__(self):
        self._hash_value = 3
        return 3


@dataclasses.dataclass
class Point:
    x: int = 1


def test_class_attributes():
    """Methods and values count; docstring, module and slots do not."""
    names = {name for name, _value in class_attributes(Tile)}
    assert {"factor", "area", "__init__", "__hash__"} <= names
    assert not names & {"__doc__", "__module__", "width", "__dict__"}


def test_fields_of_a_dataclass():
    """A field counts by its type and its default."""
    (fields,) = [value for name, value in class_attributes(Point) if name == "__dataclass_fields__"]
    assert fields["x"][:2] == ("int", 1)


def test_attributes():
    """An instance holds its slots and its dictionary."""
    tile = Tile(3)
    tile.height = 5
    assert content(tile) == [("height", 5), ("width", 3)]


def test_remembered():
    """Of an object of a library, a cached property and a stored hash are computed from the others."""
    assert is_remembered(Tile, "area")
    assert is_remembered(Tile, "_hash_value")
    assert not is_remembered(Tile, "width")


def test_memo():
    """Of an object of the user, the memos of pytools do not count, and of a node of pymbolic its hash."""
    assert is_memo(Tile, "_memoize_dic_area")
    assert not is_memo(Tile, "_hash_value")
    assert is_memo(type(primitives.Variable("x")), "_hash_value")
    assert not is_memo(Tile, "area")


def test_plain():
    """Instances hold all in attributes unless a base of another language keeps something."""
    assert is_plain(Tile)
    assert is_plain(type("Named", (str,), {}))
    assert not is_plain(memoryview)


def test_registered():
    """Classes that were registered with an abstract class are listed by name."""

    class Shape(abc.ABC):  # noqa: B024
        pass

    Shape.register(Tile)
    Shape.register(Point)
    assert registered(Shape) == [Point, Tile]
    assert registered(abc.ABC) == []
