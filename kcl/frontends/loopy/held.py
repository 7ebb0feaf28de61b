"""What the modules of packages hold: what was changed there since their import.

A package counts by its files as long as its modules hold what their imports gave. A module is taken as its import ends:
its names, the bodies of its classes, attributes of its functions and objects, tables. Python tells of other changes of
a function. A key has the content of what differs, in a package and in what that requires. Of a module that was imported
before kcl attended it has plain values, and the names of functions and classes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from kcl.base import process
from kcl.errors import UnknownInput
from kcl.frontends.loopy import baseline
from kcl.frontends.loopy.baseline import MISSING, TABLES, TEXTS, Holder, Pairs
from kcl.frontends.loopy.callables.classes import class_attributes
from kcl.frontends.loopy.plain import shorten
from kcl.frontends.loopy.watch import Watch, is_same
from kcl.generate import distributions, requirements

# They refer to each other, so one comparison of all is less than one of each.
LIBRARIES_OF_GRAPHS = "the libraries of graphs"


class ComparedPackages(process.LockedState):
    """What packages are compared with, and their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.packages: dict[str, _Package] = {}


_state = process.shared(ComparedPackages)


def take(names: list[str]) -> None:
    """Take what modules hold as their imports ended. No error of theirs reaches the import."""
    # What is not taken is compared later as a module that kcl did not attend to.
    with suppress(Exception):
        baseline.hear()
        for name in names:
            baseline.state().taken[name] = _holders(name, sys.modules.get(name))


def _holders(name: str, module: Any) -> list[Holder]:
    top = name.partition(".")[0]

    def inner(thing: Any, pairs: Pairs) -> Iterator[tuple[Any, str, Any]]:
        for key, value in pairs:
            kind: Any = type(value)
            # The attributes of a function are taken with its own module. Those of a method are not taken.
            if kind is FunctionType:
                if type(thing) is ModuleType and value.__module__ == thing.__name__:
                    yield key, "", vars(value)
            elif issubclass(kind, TABLES):
                yield key, "", value
            elif not isinstance(thing, TABLES):
                module = str((value if issubclass(kind, type) else kind).__module__)
                if module.partition(".")[0] == top or kind is SimpleNamespace:
                    yield key, "", value

    return baseline.take(name, module, inner, {}) if isinstance(module, ModuleType) else []


class _Changed:
    """A holder in which names got other values. These are encoded at each request, since they may change in place."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self._pairs = [pair for pair in holder.differing().items() if not holder.is_nothing(*pair)]

    def counts(self) -> bool:
        """Return True if something changed that may count: of most modules it is that one below them was imported."""
        return bool(self._pairs) or isinstance(self._holder.thing, TABLES)

    def texts(self, encoder: Any) -> list[str]:
        """Return the texts of what the holder holds and did not hold as it was taken."""
        if isinstance(self._holder.thing, TABLES):
            return [f"{self._holder.name}: {encoder.encode(self._holder.thing)}"]
        texts = []
        for key, value in self._pairs:
            body = class_attributes(value) if isinstance(value, type) else ()
            text = "gone" if value is MISSING else encoder.encode([value, *body])
            texts.append(f"{self._holder.name}.{key}: {text}")
        return texts


def _is_as_taken(holder: Holder) -> bool:
    before, now = holder.held, holder.now()
    return is_same([*before, *before.values()], [*now, *now.values()])


def _shown(holder: Holder) -> str:
    """Return the text of a holder of a module that was there before kcl attended: plain values, and names of code."""
    pairs = [pair for pair in holder.held.items() if not holder.is_nothing(*pair)]
    return f"{holder.name}: {', '.join(sorted([f'{_token(key)}={_token(value)}' for key, value in pairs]))}"


def _token(value: Any) -> str:
    kind = type(value)
    write = TEXTS.get(kind)
    if write is not None:
        return write(value)
    if kind is tuple or kind is frozenset:
        texts = (list if kind is tuple else sorted)(map(_token, value))
        return f"{kind.__name__}({', '.join(texts)})"
    if kind is ModuleType:
        return f"module {value.__name__}"
    if isinstance(value, getattr(sys.modules.get("numpy"), "generic", ())):
        return f"{kind.__name__}({value!r})"
    function = value if kind is FunctionType else None
    if function is None and not issubclass(kind, type):
        return f"{kind.__module__}.{kind.__qualname__}"
    module = value.__module__ if function is None else function.__globals__.get("__name__")
    name = f"{module}.{value.__qualname__}"
    if distributions.owner(str(module)).kind == distributions.USER:
        raise UnknownInput(f"{name} is code of the program, which no key holds")
    return name if function is None else f"{name}{_token(function.__defaults__ or ())}"


class _Package:
    """What the loaded modules of a distribution, and of what it requires, hold at one moment.

    What the libraries of graphs require beside each other makes no unit.
    """

    def __init__(self, name: str) -> None:
        is_of_graphs = name == LIBRARIES_OF_GRAPHS
        mine = distributions.GRAPHS if is_of_graphs else (name, *requirements.all_required(name))
        self._distributions = {*mine}.difference(distributions.HARMLESS)
        self._seen, self._told = set[str](), baseline.state().noted
        self._modules = dict[str, Any]()
        self._watch = Watch()
        # In the order of the watch, each with the name of its module.
        self._holders = list[tuple[str, Holder]]()
        # The places of what was there before kcl attended, and the text of that. It is written at the first request.
        self._early, self._shown = set[int](), ""
        # The holders in which something was changed, by their places.
        self._changed: dict[int, _Changed] = {}
        self._add()

    def _add(self) -> None:
        """Look at the modules that were imported since the last look."""
        seen, self._seen = self._seen, {*sys.modules}
        start, new = len(self._holders), self._mine(self._seen - seen)
        baseline.hear(new)
        for name in new:
            module = self._modules[name] = sys.modules.get(name)
            if not baseline.is_loaded_by_python(module):
                raise UnknownInput(f"a loader of the program made the code of module {name}")
            holders = baseline.state().taken[name]
            if not holders or holders[0].thing is not module:
                holders, first = _holders(name, module), len(self._holders)
                self._early.update(range(first, first + len(holders)))
                self._shown = ""
            self._holders += [(name, holder) for holder in holders]
        if start < len(self._holders):
            # The watch begins before the comparison, so no change falls between the two.
            self._watch.add([holder.thing for _name, holder in self._holders[start:]])
            self._compare(set(range(start, len(self._holders))) - self._early)

    def _compare(self, places: set[int]) -> None:
        """Compare the holders at some places with what they held as they were taken."""
        for place in places:
            _name, holder = self._holders[place]
            self._changed.pop(place, None)
            if not _is_as_taken(holder) and (changed := _Changed(holder)).counts():
                self._changed[place] = changed

    def _mine(self, names: set[str]) -> list[str]:
        """List the modules of these distributions, by the owners of their top-level modules."""
        mine = []
        for name in names:
            top = name.partition(".")[0]
            if distributions.is_others(top):
                is_namespace = getattr(sys.modules.get(top), "__file__", None) is None
                whose = distributions.owner(name if is_namespace else top)
                mine += [name] if whose.name in self._distributions else []
        return sorted(mine)

    def stands(self) -> bool:
        """Return True if no module was replaced since, and none changed that was there before kcl attended."""
        if not is_same([*map(sys.modules.get, self._modules)], [*self._modules.values()]):
            return False
        # Python has told of one more function or class that was changed.
        if self._told != baseline.state().noted:
            self._told, self._shown = baseline.state().noted, ""
        changed = self._watch.changed()
        if not changed.isdisjoint(self._early):
            return False
        self._compare(changed)
        self._add()
        return True

    def text(self, encoder: Any) -> str:
        """Return the text of what differs, as it is now, and of what was there before kcl attended."""
        places = self._ordered(self._changed)
        differing = [line for place in places for line in self._changed[place].texts(encoder)]
        mine = [getattr(module, "__dict__", None) for module in self._modules.values()]
        mine += [holder.thing for _name, holder in self._holders]
        for holder in baseline.told():
            place = getattr(holder.thing, "__globals__", holder.thing)
            if any(place is thing for thing in mine) and holder.differing():
                bases = getattr(holder.thing, "__bases__", ())
                differing.append(f"{holder.name}: {encoder.encode([holder.thing, *bases])}")
        early = [] if self._shown else self._ordered(self._early)
        self._shown = self._shown or "; ".join([_shown(self._holders[place][1]) for place in early])
        return shorten("; ".join([*differing, self._shown]))

    def _ordered(self, places: Iterable[int]) -> list[int]:
        """Order positions in the watch by the names of the modules, which another run may import in another order."""
        return sorted(places, key=lambda place: (self._holders[place][0], place))


def compared(distribution: str) -> str:
    """Return the name under which what a distribution holds is compared."""
    return LIBRARIES_OF_GRAPHS if distribution in distributions.GRAPHS else distribution


def text(distribution: str, encoder: Any) -> str:
    """Return the text of what a compared distribution, and what it requires, hold.

    Raise UnknownInput if no key can hold it.
    """
    state = _state()
    with state.lock:
        # An error leaves no package behind that has looked at a part: the next request compares all of it again.
        package = state.packages.pop(distribution, None)
        if package is None or not package.stands():
            package = _Package(distribution)
        state.packages[distribution] = package
        return package.text(encoder)
