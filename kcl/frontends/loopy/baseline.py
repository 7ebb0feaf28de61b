"""What modules held as their imports ended: their names, bodies of classes, attributes of objects, tables.

Python tells of each change of a function of these modules, or of the bases of a class, before it happens. Who takes a
module says what of a value in it may change in place.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, count
from types import FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

from kcl.base import process
from kcl.frontends import FACED
from kcl.frontends.loopy.callables.classes import NOT_IN_CLASS, is_memo
from kcl.frontends.loopy.plain import SIMPLE
from kcl.frontends.loopy.watch import items
from kcl.generate import distributions

# The parts of a function or a class that may be set.
_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__bases__")
# Stands for no value: None may be the value of a name.
MISSING = object()
TEXTS = {**SIMPLE, str: repr}
TABLES = (dict, list, set, deque)
# The classes of values that hold something which changes, with those of functions and methods.
_OPEN = (type, property, MethodType, *TABLES)
# The names that Python's import gives a module, and kcl's own.
_OF_MODULES = {
    *vars(ModuleType("a")),
    *("__file__", "__cached__", "__path__", "__builtins__", "__annotations__"),
    *("__warningregistry__", FACED),
}
_IGNORED = NOT_IN_CLASS.union(_OF_MODULES)

# Pairs of a name and a value.
Pairs = Iterable[tuple[Any, Any]]
Inner = Callable[[Any, Pairs], Iterable[tuple[Any, str, Any]]]


class Holder:
    """A module, class, object, table, cell or function, with what it held as it was taken."""

    __slots__ = ("held", "name", "thing")

    def __init__(self, name: str, thing: Any, held: dict[Any, Any] | None = None) -> None:
        self.name = name
        self.thing = thing
        self.held = items(thing) if held is None else held

    def now(self) -> dict[Any, Any]:
        """Return what the thing holds now."""
        return items(self.thing)

    def differing(self) -> dict[Any, Any]:
        """Return the names that have another value now, with that value; `MISSING` for one that is gone."""
        before, now = self.held, self.now()
        # Identity, not equality: a comparison could run code of the program.
        return {
            name: now.get(name, MISSING)
            for name in {**before, **now}
            if before.get(name, MISSING) is not now.get(name, MISSING)
        }

    def is_nothing(self, name: Any, value: Any) -> bool:
        """Return True for a name of Python's, a module below its package, and what loopy remembers on an object."""
        if type(name) is not str or name in _IGNORED:
            return type(name) is str
        if isinstance(value, ModuleType):
            return sys.modules.get(f"{self.name}.{name}") is value
        kind: Any = type(self.thing)
        return not isinstance(self.thing, (ModuleType, type)) and is_memo(kind, name)


class Parts(Holder):
    """The code and defaults of a function, or the bases of a class."""

    def now(self) -> dict[Any, Any]:
        """Return the parts that the thing has now."""
        return {part: getattr(self.thing, part) for part in self.held}


class TakenModules:
    """The modules that were taken, and what in them a part was set of, with the parts before."""

    def __init__(self) -> None:
        # This module counts as taken, since `is_told` makes its probe of a function of it.
        self.taken: dict[str, list[Holder]] = {__name__: []}
        # By the number of the note. Threads change and copy it in one step each.
        self.parts: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self.numbers = count(1)
        self.hears = False

    @property
    def noted(self) -> int:
        """The number of the last note."""
        return max(self.parts.copy(), default=0)


state = process.shared(TakenModules)


def hear(modules: Iterable[str] = ()) -> None:
    """Hear of changes of the functions of more modules from now on.

    Python tells of each import and of each attribute of a function that is read, which costs 7 ms while loopy is
    imported and walked. So this comes after both.
    """
    for name in modules:
        state().taken.setdefault(name, [])
    if not state().hears:
        # No audit hook can be removed, so the state lasts as long as the process.
        sys.addaudithook(_hear)
        state().hears = True


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Note the parts of a function or class of a taken module before code sets or deletes one."""
    if event == "object.__setattr__" or event == "object.__delattr__":
        thing, name = arguments[:2]
        has_parts = name in _PARTS and issubclass(type(thing), (FunctionType, type))
        if has_parts and module_of(thing) in state().taken:
            note(thing, {part: getattr(thing, part) for part in _PARTS if hasattr(thing, part)})


def note(thing: Any, parts: dict[Any, Any]) -> None:
    """Note what the parts of a function or class were, before the first change of one."""
    noted = state().parts
    # No hash: the class of a class may define another one, or none.
    if not any(place() is thing for place, _before in noted.copy().values()):
        number = next(state().numbers)
        noted[number] = ref(thing, lambda _place: noted.pop(number, None)), parts


def module_of(thing: Any) -> str:
    """Return the name of the module of a function or a class."""
    if issubclass(type(thing), type):
        return str(type.__getattribute__(thing, "__module__"))
    return str(thing.__globals__.get("__name__"))


@functools.cache
def is_told() -> bool:
    """Return True if Python tells of changes of functions; a hook of the program may keep others away."""
    probe = FunctionType(module_of.__code__, {"__name__": __name__})
    hear()
    probe.__defaults__ = ()
    return any(holder.thing is probe for holder in told())


def told() -> list[Parts]:
    """List the functions and classes of which a part was set, each below the name of its module."""
    return [
        Parts(f"{module_of(thing)}.{thing.__qualname__}", thing, before)
        for place, before in state().parts.copy().values()
        if (thing := place()) is not None
    ]


def is_loaded_by_python(thing: Any) -> bool:
    """Return True unless a loader of the program made the code of a module."""
    spec = thing.__spec__ if type(thing) is ModuleType else None
    kind: Any = type(getattr(spec, "loader", None))
    # An application that PyInstaller made has a loader of its own, for kcl too.
    return kind in (type, type(__spec__.loader)) or is_theirs(str(kind.__module__))


@functools.cache
def is_theirs(module: str) -> bool:
    """Return True for a module of a package or of Python, and False for one of the program."""
    return distributions.owner(module).kind != distributions.USER


class _Changeable(dict[type, bool]):
    """By class: whether an object of it may hold something, itself or in what it calls."""

    def __missing__(self, kind: type) -> bool:
        # Classes that C code made have no slots, and many methods of islpy are of one without a dictionary.
        has_names = kind.__dictoffset__ != 0 or any("__slots__" in vars(b) for b in kind.__mro__)
        found = self[kind] = kind is not ModuleType and (has_names or issubclass(kind, _OPEN))
        return found


# Twenty thousand values are asked about as loopy is imported, by C code alone.
_is_changeable = _Changeable().__getitem__


def changeable(holder: Holder) -> Iterator[tuple[Any, Any]]:
    """Yield the names and values of a holder that may hold something themselves, or that call something."""
    held = holder.held
    return compress(held.items(), map(_is_changeable, map(type, held.values())))


def take(name: str, module: ModuleType, inner: Inner, seen: dict[int, Holder]) -> list[Holder]:
    """Return a module, which comes first, and what in it may change, unless that was `seen` before, by its address.

    Of what a thing holds, `inner` yields what may change in place: its name there, an ending for that, itself.
    """
    new, waiting = list[Holder](), deque([(name, module)])
    while waiting:
        name, thing = waiting.popleft()
        if id(thing) not in seen:
            # The holder keeps the thing, so its address is not used again.
            seen[id(thing)] = holder = Holder(name, thing)
            new.append(holder)
            for key, end, part in inner(thing, changeable(holder)):
                if key not in _IGNORED and id(part) not in seen:
                    waiting.append(
                        (f"{name}.{key}{end}" if type(key) is str else f"{name}[]", part)
                    )
    return new
