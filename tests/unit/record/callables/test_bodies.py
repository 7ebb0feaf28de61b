"""kcl.record.callables.bodies: what a class counts by."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest
from pytools import memoize_method
from pytools.tag import Tag

from kcl.errors import UnknownInput
from kcl.record.callables.walker import walked

LIMIT = 1


class Base(dict):
    weight = 1

    def used(self) -> int:
        return self.weight

    def unused(self) -> int:
        return os.getpid()


def with_class() -> int:
    return Base().used()


def with_any(name: str) -> object:
    return getattr(Base(), name)


@dataclasses.dataclass(frozen=True)
class Label(Tag):
    number: int

    def __str__(self) -> str:
        return f"{LIMIT}"

    def told(self) -> int:
        return os.getpid()


@dataclasses.dataclass
class Data:
    x: int = 0


class Remembers:
    @memoize_method
    def twice(self) -> int:
        return 2 * LIMIT


class Alone:
    def unused(self) -> int:
        return os.getpid()


class Word:
    def __init__(self, word: str) -> None:
        self.word = word

    def __kcl_key__(self) -> str:
        return self.word

    def __call__(self) -> int:
        return os.getpid()


def digest(value: Any) -> str:
    return walked(value).digest


class TestClasses:
    """A class counts by its values, and by the methods that code or a library names."""

    def test_named_methods(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A method that nobody names does not count and is not refused."""
        before = digest(with_class)
        monkeypatch.setattr(Base, "unused", lambda _self: 3)
        assert digest(with_class) == before
        monkeypatch.setattr(Base, "used", lambda _self: 3)
        assert digest(with_class) != before

    def test_any_name(self) -> None:
        """Code that takes attributes by computed names may take each of them."""
        with pytest.raises(UnknownInput, match=r"posix.getpid"):
            walked(with_any)

    def test_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A value in a class counts, named or not."""
        before = digest(with_class)
        monkeypatch.setattr(Base, "other", 2, raising=False)
        assert digest(with_class) != before

    def test_object_without_a_base(self) -> None:
        """Of an object that no library knows each method counts, since nobody says which are called."""
        with pytest.raises(UnknownInput, match=r"Alone.unused"):
            walked(Alone())

    def test_tag(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A tag counts by its values and by methods that override those of the library."""
        before = digest(Label(1))
        assert digest(Label(2)) != before
        monkeypatch.setattr(Label, "told", lambda _self: 3)
        assert digest(Label(1)) == before
        monkeypatch.setitem(globals(), "LIMIT", 2)
        assert digest(Label(1)) != before

    def test_dataclass(self) -> None:
        """What `dataclasses` made of the fields is not walked: its text of an object asks for addresses."""
        assert digest(Data(1)) != digest(Data(2))

    def test_memo_of_pytools(self) -> None:
        """What pytools remembers on an object is left out."""
        value = Remembers()
        before = walked(value)
        value.twice()
        assert walked(value) == before

    def test_own_word(self) -> None:
        """A class with __kcl_key__ is never refused: the user vouches for it."""
        assert digest(Word("a")) == digest(Word("a")) != digest(Word("b"))
