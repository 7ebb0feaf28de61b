"""kcl.frontends.loopy.callables.classes: what a class counts by, what an instance holds, and which instances last."""

import collections
import dataclasses
import enum
import functools
import typing

import pytest
from pymbolic import primitives
from pytools.tag import Tag

from kcl.errors import UnknownInput
from kcl.frontends.loopy import texts
from kcl.frontends.loopy.callables.classes import attributes, class_attributes, is_memo, is_plain
from kcl.frontends.loopy.callables.content import content as known


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


def test_class_attributes():
    """Methods and values count; docstring, module and slots do not."""
    names = {name for name, _value in class_attributes(Tile)}
    assert {"factor", "area", "__init__", "__hash__"} <= names
    assert not names & {"__doc__", "__module__", "width", "__dict__"}


def test_attributes():
    """An instance holds its slots and its dictionary."""
    tile = Tile(3)
    tile.height = 5
    assert attributes(tile) == [("height", 5), ("width", 3)]


@dataclasses.dataclass
class Open:
    number: int = 1


class Hidden(Open):
    """An object with another dictionary than Python's own, which its class inherits."""

    @property
    def __dict__(self):
        return {}


def test_another_dictionary():
    """An object holds what is in Python's own dictionary; an object whose class hides that cannot be known."""
    assert attributes(Hidden(5)) == [("number", 5)]
    body = {"__dict__": property(lambda _: {}), "__slots__": ("width",)}
    thing = type("Slotted", (), body)()
    thing.width = 2
    assert attributes(thing) == [("width", 2)]
    with pytest.raises(UnknownInput):
        attributes(type("All", (), {"__dict__": body["__dict__"]})())


@pytest.mark.parametrize(
    ("kind", "name", "theirs", "is_computed"),
    [
        (Tile, "area", True, True),
        (Tile, "_hash_value", True, True),
        (Tile, "width", True, False),
        (Tile, "_memoize_dic_area", False, True),
        (Tile, "_hash_value", False, False),
        (Tile, "area", False, False),
        (primitives.Variable, "_hash_value", False, True),
    ],
)
def test_memo(kind, name, theirs, is_computed):
    """A library's cached properties and hashes, the memos of pytools, and the hash of a node are computed from others."""
    assert is_memo(kind, name, theirs) is is_computed


def test_plain():
    """Instances hold all in attributes unless a base of another language keeps something."""
    kinds = (Tile, type("Named", (str,), {}), memoryview)
    assert [is_plain(kind) for kind in kinds] == [True, True, False]


def text(value):
    return texts.take(value, texts.ArgumentParts())[0]


class Size(enum.IntEnum):
    FOUR = 4

    def half(self):
        return self // 2


class Pair(typing.NamedTuple):
    one: object = 1


@dataclasses.dataclass(frozen=True)
class Blocked(Tag):
    number: object = 1

    def cost(self):
        return 2


@dataclasses.dataclass(frozen=True)
class Shown(Tag):
    def __repr__(self):
        return "shown"


class Growing(Tag):
    pass


GROWN = Growing()
object.__setattr__(GROWN, "more", 1)


class TestLasting:
    def test_that_last(self):
        """Values and names count."""
        values = Size.FOUR, Pair(), Pair(2), Blocked(1), Blocked(2), Blocked(Blocked(1)), Growing()
        assert len({*map(text, values)}) == len(values)

    def test_methods_that_loopy_never_calls(self, monkeypatch):
        before = text(Blocked(1))
        monkeypatch.setattr(Blocked, "cost", lambda _self: 3)
        assert text(Blocked(1)) == before

    @pytest.mark.parametrize(
        "value",
        [Shown(), Open(), object(), GROWN, Blocked([1]), Pair([1]), collections.deque()],
        ids=["shown", "open", "object", "grown", "a list in a tag", "a list in a tuple", "deque"],
    )
    def test_that_may_change(self, value):
        """An object that Python lets change, or whose class runs code of the user in loopy, has no text."""
        with pytest.raises(UnknownInput, match="may change"):
            text(value)


class Word:
    def __kcl_key__(self):
        return "word"

    def __call__(self):
        return 1


class TestObjects:
    """An object of the program counts by its name and its values, as long as its class brings no code."""

    def test_tag(self, monkeypatch):
        """A tag counts by its values; a method that overrides one of the library is code, and refused."""
        before = known(Blocked(1))
        assert known(Blocked(2)).text != before.text
        monkeypatch.setattr(Blocked, "cost", lambda _self: 3)
        assert known(Blocked(1)) == before
        monkeypatch.setattr(Blocked, "__str__", lambda _self: "3")
        with pytest.raises(UnknownInput, match=r"test_classes.Blocked is code of the program"):
            known(Blocked(1))

    def test_own_word(self):
        """An object whose class has __kcl_key__ counts by the files of its class, too."""
        found = set()
        for number in (1, 2):
            names = {"__name__": "a_module_of_nobody"}
            body = f"return {number}"
            exec(f"class P:\n def __kcl_key__(self): return 0\n def __call__(self): {body}", names)
            found.add(known(names["P"]()).digest)
        assert len(found) == 2
        package = __name__.partition(".")[0]
        assert f"module {package}" in {part.name for part in known(Word()).parts}
