"""What was found on a walk over a recipe, for as long as nothing that it reached was replaced.

A walk notes every binding that it reads: globals, cells, attributes of functions, classes and modules, modules
themselves. Where all that it reached are code and values that cannot change by themselves, the next key of the same
recipe needs no walk: it is enough that every binding still holds the very same object. What can change in place, and
what is read otherwise, makes a walk unsteady; then the next one starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from kcl.cache.key import Part
from kcl.errors import UnknownInput
from kcl.record.callables import values
from kcl.record.callables.classes import HEAP
from kcl.record.evidence import PARAMETER

MISSING = object()


class Guards:
    """The bindings that a walk has read."""

    __slots__ = ("attributes", "bindings", "spaces", "steady")

    def __init__(self) -> None:
        self.steady = True
        self.bindings: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
        self.attributes: list[tuple[Any, str, Any]] = []
        self.spaces: list[tuple[Any, Callable[[Any], Any], Any]] = []  # thing, what is found in it, what was

    def binding(self, names: Mapping[str, Any], name: str) -> Any:
        """Read a name, `MISSING` where it is none, and note what it is bound to."""
        value = names.get(name, MISSING)
        self.bindings[id(names), name] = (names, name, value)
        return value

    def function(self, function: FunctionType) -> None:
        """Note what a function consists of; its cells are noted where they are read."""
        for name in ("__code__", "__defaults__", "__qualname__", "__kwdefaults__", "__dict__"):
            self.attributes.append((function, name, getattr(function, name)))
        self.whole(function.__dict__)
        if function.__kwdefaults__ is not None:
            self.whole(function.__kwdefaults__)

    def kind(self, kind: type) -> None:
        """Note what a class of the user consists of; members of enumerations are objects that can change."""
        names = kind.__dict__
        self.spaces.append((names, len, len(names)))
        for name, value in names.items():
            self.bindings[id(kind), name] = (names, name, value)
        for name in ("__bases__", "__qualname__", "__class__"):
            self.attributes.append((kind, name, getattr(kind, name)))
        if "_member_map_" in names:
            self.steady = False

    def named(self, kind: type) -> None:
        """Note how a class of a library is called."""
        if kind.__flags__ & HEAP:
            for name in ("__module__", "__qualname__"):
                self.attributes.append((kind, name, getattr(kind, name)))

    def whole(self, names: dict[str, Any]) -> None:
        """Note all that is bound in a dictionary."""
        self.spaces.append((names, len, len(names)))
        for name in names:
            self.binding(names, name)

    def hold(self) -> bool:
        """Tell whether everything is bound as it was."""
        try:
            for names, name, value in self.bindings.values():
                if names.get(name, MISSING) is not value:
                    return False
            for thing, name, value in self.attributes:
                if getattr(thing, name) is not value:
                    return False
            return all(found(space) == before for space, found, before in self.spaces)
        except (AttributeError, ValueError):  # it is gone; an empty cell
            return False


class Found(NamedTuple):
    """What a steady walk found, the recipe's parameters left out."""

    function: FunctionType
    guards: Guards
    parameters: tuple[str, ...]
    distributions: frozenset[str]  # those in the key
    directory: str  # root of the user's code
    before: tuple[Part, ...]
    after: tuple[Part, ...]
    reached: Any  # the first kcl.record.callables.reach.Reached of this walk


# types that nobody can change, by id: the type, its text, the distribution that it belongs to
_types: dict[int, tuple[type, str, str]] = {}
_LIMIT = 1024
_found: dict[int, Found] = {}


def keep(found: Found) -> None:
    """Remember what a walk found."""
    if len(_found) >= _LIMIT:
        _found.clear()
    _found[id(found.function)] = found


def known(kind: type, text: str, distribution: str) -> None:
    """Remember the text of a type of a library, unless it can be changed."""
    if not kind.__flags__ & HEAP and len(_types) < _LIMIT:
        _types[id(kind)] = (kind, text, distribution)


def find(function: object, arguments: Mapping[str, object]) -> tuple[Found, list[Part], dict[str, str]] | None:
    """Return what is known of a recipe, the parts of these parameters, and texts that were too long for them."""
    found = _found.get(id(function))
    if found is None or found.function is not function or len(arguments) != len(found.parameters):
        return None
    if not found.guards.hold():
        _found.pop(id(function), None)
        return None
    encoder = values.Encoder(_Parameters(found))
    try:
        parts = [Part(PARAMETER + name, encoder.encode(arguments[name])) for name in found.parameters]
    except (KeyError, UnknownInput):
        return None
    return None if encoder.shared else (found, parts, encoder.long)


class _Parameters:
    """A walker for parameters that lead to no code."""

    def __init__(self, found: Found) -> None:
        self.directory = found.directory
        self.distributions = found.distributions

    def refer(self, value: Any) -> str:
        _kind, text, distribution = _types[id(value)]  # KeyError: the walk must decide
        if distribution and distribution not in self.distributions:
            raise KeyError(value)
        return text

    def describe(self, value: Any) -> str | None:
        if type(value).__module__ in ("numpy", "numpy.dtypes"):
            return None
        raise KeyError(type(value))

    def foreign(self, module: str) -> bool:
        raise KeyError(module)
