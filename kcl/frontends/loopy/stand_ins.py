"""Stand-ins for functions of loopy, and for members of its enumerations, by name: loopy answers questions to them."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable
from typing import Any

from kcl.frontends.loopy import plain, recorder

# Names that loopy has nowhere, and that numpy, notebooks, test runners and kcl look for in any object.
_OF_TOOLS = frozenset({"__test__", "__wrapped__", "_pytestfixturefunction", "pytestmark"})


def is_absent(name: str) -> bool:
    """Return True if no object of loopy has this name, so that loopy need not be asked."""
    return (
        name.startswith(("__kcl", "_kcl", "__array_", "_repr_", "_ipython_")) or name in _OF_TOOLS
    )


def asked_for(stand_in: Any) -> Any:
    """Return loopy's own class or member, for a question of the program."""
    recorder.loopy(stand_in.text().partition(".")[2])
    return stand_in.real()


class Name(plain.StandIn):
    """A function or a member of an enumeration of loopy, by its dotted name."""

    __slots__ = ("__weakref__", "dotted")

    def __init__(self, dotted: str) -> None:
        self.dotted = dotted  # below loopy

    def text(self) -> str:
        """Return the name, as in the texts of loopy's own objects."""
        return f"loopy.{self.dotted}"

    def real(self) -> Any:
        """Return loopy's own object."""
        return recorder.own(self.dotted)

    def __getattr__(self, name: str) -> Any:
        if is_absent(name) or name in ("dtype", "dotted"):
            raise AttributeError(name)
        return getattr(asked_for(self), name)


class Member(Name):
    """A member of an enumeration of loopy."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.real()) if recorder.loaded() is not None else Member

    def __eq__(self, other: object) -> Any:
        return self.dotted == other.dotted if type(other) is Member else asked_for(self) == other

    def __hash__(self) -> int:
        return hash(asked_for(self))

    def __reduce__(self) -> Any:
        return member, (self.dotted,)


def _of_real(operation: Callable[..., Any]) -> Any:
    """Return a method that asks loopy's own class or member."""

    def method(self: Any, *others: Any) -> Any:
        return operation(
            asked_for(self), *[other.real() if type(other) is Member else other for other in others]
        )

    return method


# The operations by which a program looks into classes, writes members into the text of a kernel, and compares them.
_OPERATIONS = {**vars(builtins), **vars(operator)}


def operate(kind: type, names: str) -> None:
    """Have the instances of a class answer operations as loopy's own objects do."""
    for name in ("repr", "len", "iter", "getitem", *names.split()):
        setattr(kind, f"__{name}__", _of_real(_OPERATIONS[name]))


operate(Member, "bool str format int index lt le gt ge")


@functools.cache
def member(name: str) -> Member:
    """Return the stand-in for a member; the same for the same name."""
    return Member(name)
