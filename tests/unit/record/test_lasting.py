"""Objects that last: frozen ones of classes that redefine nothing; any other may change after a call."""

from __future__ import annotations

import collections
import dataclasses
import enum
import typing

import pytest
from pytools.tag import Tag

from kcl.errors import UnknownInput
from kcl.record import texts


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


class TestObjects:
    def test_that_last(self):
        """Values and names count."""
        lasting = [Size.FOUR, Pair(), Pair(2), Blocked(1), Blocked(2), Blocked(Blocked(1)), Growing()]
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
