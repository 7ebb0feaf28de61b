"""Finds what a program has changed in the modules of installed packages since their import.

A package counts by its files as long as its modules hold what their imports put there. That is noted for each module
when its import ends (`kcl.frontends.loopy.baseline`). The key has the content of what differs, in a package and in the
packages that it requires. A module that was imported before kcl has no baseline: its plain values, and the names of its
functions and classes, are in the key.
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
from kcl.frontends.loopy.baseline import MISSING, TABLES, TEXTS, Holder, Inside, Pairs
from kcl.frontends.loopy.callables.classes import class_attributes
from kcl.frontends.loopy.plain import loaded, shorten
from kcl.frontends.loopy.watch import Contents, Watch, is_same
from kcl.generate import distributions, requirements, top_of

# Compared together, which takes less time, since these libraries refer to each other.
LIBRARIES_OF_GRAPHS = "the libraries of graphs"


class ComparedPackages(process.LockedState):
    """The packages whose modules have been compared with their baselines in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.packages: dict[str, _Package] = {}


_state = process.shared(ComparedPackages)


def take(names: list[str]) -> None:
    """Note the baseline of modules whose imports have just ended. Raises nothing, since an import calls it."""
    # After an error a module has no baseline, like one that was imported before kcl.
    with suppress(Exception):
        baseline.hear()
        for name in names:
            baseline.state().taken[name] = _holders(name, sys.modules.get(name))


def _holders(name: str, module: Any) -> list[Holder]:
    top = top_of(name)

    def inner(thing: Any, pairs: Pairs) -> Iterator[Inside]:
        for key, value in pairs:
            kind: Any = type(value)
            # Attributes of a function are noted with its own module; those of methods are not noted.
            if kind is FunctionType:
                if type(thing) is ModuleType and value.__module__ == thing.__name__:
                    yield key, "", vars(value)
            elif issubclass(kind, TABLES):
                yield key, "", value
            elif not isinstance(thing, TABLES):
                module = baseline.module_of(value if issubclass(kind, type) else kind)
                if top_of(module) == top or kind is SimpleNamespace:
                    yield key, "", value

    return baseline.take(name, module, inner, {}) if isinstance(module, ModuleType) else []


def _is_as_taken(holder: Holder) -> bool:
    before, now = holder.held, holder.now()
    return is_same([*before, *before.values()], [*now, *now.values()])


def _counting(holder: Holder, names: Contents) -> list[tuple[Any, Any]]:
    return [pair for pair in names.items() if not holder.is_nothing(*pair)]


def _changed_values(holder: Holder, pairs: Pairs) -> Pairs:
    """Yield what a holder holds and did not hold as it was taken, with its name; `MISSING` for what is gone."""
    if isinstance(holder.thing, TABLES):
        yield holder.name, holder.thing
        return
    for key, value in pairs:
        body = class_attributes(value) if isinstance(value, type) else ()
        yield f"{holder.name}.{key}", MISSING if value is MISSING else [value, *body]


def _shown(holder: Holder) -> str:
    """Return the text of a holder without a baseline: its plain values, and the names of functions and classes."""
    pairs = _counting(holder, holder.held)
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
    if isinstance(value, loaded("numpy", "generic", ())):
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
    """The loaded modules of a distribution and of those it requires, compared with their baselines.

    For the libraries of graphs other requirements are left out: they make no units.
    """

    def __init__(self, name: str) -> None:
        is_of_graphs = name == LIBRARIES_OF_GRAPHS
        mine = distributions.GRAPHS if is_of_graphs else (name, *requirements.all_required(name))
        self._distributions = {*mine}.difference(distributions.HARMLESS)
        self._seen, self._told = set[str](), baseline.state().noted
        self._modules = dict[str, Any]()
        self._watch = Watch()
        # (name of the module, holder), in the order in which `_watch` numbers them.
        self._holders = list[tuple[str, Holder]]()
        # The numbers of holders without a baseline, and their text, which is written at the first request.
        self._early, self._shown = set[int](), ""
        # The names that got other values, by the places of their holders. The values are encoded at each request, since
        # they may change in place.
        self._changed: dict[int, Pairs] = {}
        self._add()

    def _add(self) -> None:
        """Add the modules that were imported since the last call."""
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
            # Watched before it is compared, so that no change is missed in between.
            self._watch.add([holder.thing for _name, holder in self._holders[start:]])
            self._compare(set(range(start, len(self._holders))) - self._early)

    def _compare(self, places: set[int]) -> None:
        """Compare holders with their baselines."""
        for place in places:
            _name, holder = self._holders[place]
            self._changed.pop(place, None)
            if _is_as_taken(holder):
                continue
            # Of most modules nothing counts: one below them was imported.
            pairs = _counting(holder, holder.differing())
            if pairs or isinstance(holder.thing, TABLES):
                self._changed[place] = pairs

    def _mine(self, names: set[str]) -> list[str]:
        """List those of the modules that belong to these distributions."""
        mine = []
        for name in names:
            top = top_of(name)
            if distributions.is_others(top):
                is_namespace = loaded(top, "__file__") is None
                whose = distributions.owner(name if is_namespace else top)
                mine += [name] if whose.name in self._distributions else []
        return sorted(mine)

    def stands(self) -> bool:
        """Update the comparison with the baseline. Return False if a new comparison is needed.

        A new one is needed if a module was replaced, or if a module without a baseline has changed.
        """
        if not is_same([*map(sys.modules.get, self._modules)], [*self._modules.values()]):
            return False
        # The audit hook has noted a change of a function or class.
        if self._told != baseline.state().noted:
            self._told, self._shown = baseline.state().noted, ""
        changed = self._watch.changed()
        if not changed.isdisjoint(self._early):
            return False
        self._compare(changed)
        self._add()
        return True

    def content(self) -> tuple[list[tuple[Any, Any]], str]:
        """Return what differs, by name, and the text of what was there before kcl attended."""
        places = self._ordered(self._changed)
        differing = [
            pair
            for place in places
            for pair in _changed_values(self._holders[place][1], self._changed[place])
        ]
        mine = [getattr(module, "__dict__", None) for module in self._modules.values()]
        mine += [holder.thing for _name, holder in self._holders]
        for holder in baseline.told():
            place = getattr(holder.thing, "__globals__", holder.thing)
            if any(place is thing for thing in mine) and holder.differing():
                bases = getattr(holder.thing, "__bases__", ())
                differing.append((holder.name, [holder.thing, *bases]))
        early = [] if self._shown else self._ordered(self._early)
        self._shown = self._shown or "; ".join([_shown(self._holders[place][1]) for place in early])
        return differing, self._shown

    def _ordered(self, places: Iterable[int]) -> list[int]:
        """Sort numbers of holders by module, so that the order of imports makes no difference."""
        return sorted(places, key=lambda place: (self._holders[place][0], place))


def compared(distribution: str) -> str:
    """Return the name under which a distribution is compared: its own, or that of all libraries of graphs."""
    return LIBRARIES_OF_GRAPHS if distribution in distributions.GRAPHS else distribution


def text(distribution: str, encoder: Any) -> str:
    """Return the text of what was changed in the modules of a distribution and of those it requires.

    Raise UnknownInput if no key can describe it.
    """
    state = _state()
    with state.lock:
        # Removed first, so that after an error the next request starts a new comparison.
        package = state.packages.pop(distribution, None)
        if package is None or not package.stands():
            package = _Package(distribution)
        state.packages[distribution] = package
        differing, shown = package.content()
    # Without the lock: values may have a method `__kcl_key__`, which is the user's code.
    texts = [
        f"{name}: {'gone' if value is MISSING else encoder.encode(value)}"
        for name, value in differing
    ]
    return shorten("; ".join([*texts, shown]))
