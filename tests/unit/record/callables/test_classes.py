"""kcl.record.callables.classes: what a class gives its instances, and what an instance holds."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools

from kcl.record.callables.classes import attributes, class_attributes, is_plain, is_remembered, registered


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


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: int = 1


def test_class_attributes():
    """Methods and values count; docstring, module and slots do not."""
    names = {name for name, _value in class_attributes(Tile)}
    assert {"factor", "area", "__init__", "__hash__"} <= names
    assert not names & {"__doc__", "__module__", "width", "__dict__"}


def test_members_of_an_enumeration():
    """Members count by their values."""
    listed = dict(class_attributes(Colour))
    assert (listed["RED"], listed["BLUE"]) == (1, 2)


def test_fields_of_a_dataclass():
    """A field counts by its default, not by its annotation."""
    (fields,) = [value for name, value in class_attributes(Point) if name == "__dataclass_fields__"]
    assert fields["x"][0] == 1
    assert "int" not in repr(fields)


def test_attributes():
    """An instance holds its slots and its dictionary, without what it remembers."""
    tile = Tile(3)
    tile.height = 5
    assert tile.area == 9
    assert hash(tile) == 3
    assert attributes(tile) == [("height", 5), ("width", 3)]
    assert "area" in vars(tile)


def test_remembered():
    """A cached property and a stored hash are computed from the others; another attribute is not."""
    assert is_remembered(Tile, "area")
    assert is_remembered(Tile, "_hash_value", 3, theirs=False)
    assert not is_remembered(Point, "_hash_value", 3, theirs=False)
    assert not is_remembered(Tile, "width")


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
