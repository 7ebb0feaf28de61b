"""kcl.frontends.loopy.callables.classes: what a class counts by, what an instance holds, and which instances last."""

import collections
import dataclasses
import enum
import functools
import os
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


def test_remembered():
    """Of an object of a library, a cached property and a stored hash are computed from the others."""
    assert is_memo(Tile, "area", theirs=True)
    assert is_memo(Tile, "_hash_value", theirs=True)
    assert not is_memo(Tile, "width", theirs=True)


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


def text(value):
    """Return the text of a value."""
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


@dataclasses.dataclass
class Open:
    number: int = 1


class Growing(Tag):
    pass


def grown():
    """Return a tag with an attribute that no field declares."""
    tag = Growing()
    object.__setattr__(tag, "more", 1)
    return tag


class TestLasting:
    def test_that_last(self):
        """Values and names count."""
        lasting = [
            *(Size.FOUR, Pair(), Pair(2), Blocked(1), Blocked(2), Blocked(Blocked(1)), Growing()),
        ]
        assert len({text(one) for one in lasting}) == len(lasting)

    def test_methods_that_loopy_never_calls(self, monkeypatch):
        """The body of a method that redefines nothing does not count."""
        before = text(Blocked(1))
        monkeypatch.setattr(Blocked, "cost", lambda _self: 3)
        assert text(Blocked(1)) == before

    @pytest.mark.parametrize(
        "value",
        [Shown(), Open(), object(), grown(), Blocked([1]), Pair([1]), collections.deque()],
        ids=["shown", "open", "object", "grown", "a list in a tag", "a list in a tuple", "deque"],
    )
    def test_that_may_change(self, value):
        """An object that Python lets change, or whose class runs code of the user in loopy, has no text."""
        with pytest.raises(UnknownInput, match="may change"):
            text(value)


@dataclasses.dataclass(frozen=True)
class Label(Tag):
    number: int

    def told(self) -> int:
        return os.getpid()


class Word:
    def __init__(self, word: str) -> None:
        self.word = word

    def __kcl_key__(self) -> str:
        return self.word

    def __call__(self) -> int:
        return os.getpid()


class TestObjects:
    """An object of the program counts by its name and its values, as long as its class brings no code."""

    def test_tag(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A tag counts by its values; a method that overrides one of the library is code, and refused."""
        before = known(Label(1))
        assert known(Label(2)).text != before.text
        monkeypatch.setattr(Label, "told", lambda _self: 3)
        assert known(Label(1)) == before
        monkeypatch.setattr(Label, "__str__", lambda _self: "3")
        with pytest.raises(UnknownInput, match=r"test_classes.Label is code of the program"):
            known(Label(1))

    def test_own_word(self) -> None:
        """An object whose class has __kcl_key__ counts by the files of its class, too."""
        found = set()
        for number in (1, 2):
            names = {"__name__": "a_module_of_nobody"}
            body = f"return {number}"
            exec(f"class P:\n def __kcl_key__(self): return 0\n def __call__(self): {body}", names)
            found.add(known(names["P"]()).digest)
        assert len(found) == 2
        package = __name__.partition(".")[0]
        assert f"module {package}" in {part.name for part in known(Word("a")).parts}
