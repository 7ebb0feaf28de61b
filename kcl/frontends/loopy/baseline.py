"""The baseline: what modules held when their imports ended (names, class bodies, attributes of objects, tables).

`take` notes it for a module. Later changes are found by comparison; changes of a function's code or defaults, or of a
class's bases, are noted by an audit hook before they happen. The caller of `take` says which values in a module may
change in place.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ExtensionFileLoader
from itertools import compress, count
from types import FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

from kcl.base import process
from kcl.frontends import FACED
from kcl.frontends.loopy.callables.classes import NOT_IN_CLASS, is_memo, mro_of, names_of
from kcl.frontends.loopy.plain import SIMPLE
from kcl.frontends.loopy.watch import Contents, items
from kcl.generate import distributions, top_of

# The attributes of a function or a class whose changes the audit hook notes.
_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__bases__")
# Marks a missing name, since None may be a value.
MISSING = object()
TEXTS = {**SIMPLE, str: repr}
TABLES = (dict, list, set, deque)
# Classes whose objects may hold something that changes.
_OPEN = (type, property, MethodType, *TABLES)
# Names that Python's import or kcl puts into a module.
_OF_MODULES = {
    *vars(ModuleType("a")),
    *("__file__", "__cached__", "__path__", "__builtins__", "__annotations__"),
    *("__warningregistry__", FACED),
}
_IGNORED = NOT_IN_CLASS.union(_OF_MODULES)

# Pairs of a name and a value.
Pairs = Iterable[tuple[Any, Any]]
# Something that may change in what holds it: its name there, an ending for that, itself.
Inside = tuple[Any, str, Any]
Inner = Callable[[Any, Pairs], Iterable[Inside]]


class Holder:
    """A module, class, object, table, cell or function (`thing`), and what it held when it was taken (`held`)."""

    __slots__ = ("held", "name", "thing")

    def __init__(self, name: str, thing: Any, held: Contents | None = None) -> None:
        self.name = name
        self.thing = thing
        self.held = items(thing) if held is None else held

    def now(self) -> Contents:
        """Return what the thing holds now."""
        return items(self.thing)

    def differing(self) -> Contents:
        """Return name -> present value for the names whose value has changed; `MISSING` if the name is gone."""
        before, now = self.held, self.now()
        # Identity, not equality: a comparison could run code of the program.
        return {
            name: now.get(name, MISSING)
            for name in {**before, **now}
            if before.get(name, MISSING) is not now.get(name, MISSING)
        }

    def is_nothing(self, name: Any, value: Any) -> bool:
        """Return True for a name that does not count: Python's own, a submodule, or a result that loopy keeps there."""
        if type(name) is not str or name in _IGNORED:
            return type(name) is str
        if isinstance(value, ModuleType):
            return sys.modules.get(f"{self.name}.{name}") is value
        kind: Any = type(self.thing)
        return not isinstance(self.thing, (ModuleType, type)) and is_memo(kind, name)


class Parts(Holder):
    """A function with its code and defaults, or a class with its bases, as they were before the first change."""

    def now(self) -> Contents:
        """Return the present values of these attributes."""
        return parts_of(self.thing)


class TakenModules:
    """The modules that were taken, and the notes of the audit hook on functions and classes in them."""

    def __init__(self) -> None:
        # This module counts as taken, since the probe of `is_told` belongs to it.
        self.taken: dict[str, list[Holder]] = {__name__: []}
        # Number of the note -> (weak reference, values before the change). Changed and copied in one step each,
        # so that threads need no lock.
        self.parts: dict[int, tuple[Any, Contents]] = {}
        self.numbers = count(1)
        self.hears = False

    @property
    def noted(self) -> int:
        """The number of the last note."""
        return max(self.parts.copy(), default=0)


state = process.shared(TakenModules)


def hear(modules: Iterable[str] = ()) -> None:
    """From now on note changes of functions and classes of these modules too.

    The audit hook is called for many other events, which would cost 7 ms while loopy is imported and walked. So call this
    after that.
    """
    for name in modules:
        state().taken.setdefault(name, [])
    if not state().hears:
        # No audit hook can be removed, so the state lasts as long as the process.
        sys.addaudithook(_hear)
        state().hears = True


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook: note a function or class of a taken module before an attribute in `_PARTS` is changed."""
    if event == "object.__setattr__" or event == "object.__delattr__":
        thing, name = arguments[:2]
        has_parts = name in _PARTS and issubclass(type(thing), (FunctionType, type))
        if has_parts and module_of(thing) in state().taken:
            note(thing, parts_of(thing))


def parts_of(thing: Any) -> dict[str, Any]:
    """Return the parts of a function or class, whatever a metaclass has under their names."""
    own = vars(type if issubclass(type(thing), type) else FunctionType)
    return {part: own[part].__get__(thing) for part in _PARTS if part in own}


def note(thing: Any, parts: Contents) -> None:
    """Keep the values that a function or class had before its first change."""
    noted = state().parts
    # Compared by identity and not by hash, which a metaclass may define.
    if not any(place() is thing for place, _before in noted.copy().values()):
        number = next(state().numbers)
        noted[number] = ref(thing, lambda _place: noted.pop(number, None)), parts


def module_of(thing: Any) -> str:
    """Return the name of the module of a function or a class."""
    if issubclass(type(thing), type):
        return str(vars(type)["__module__"].__get__(thing))
    return str(thing.__globals__.get("__name__"))


@functools.cache
def is_told() -> bool:
    """Return True if the audit hook works; an audit hook of the program may have kept it from being added."""
    probe = FunctionType(module_of.__code__, {"__name__": __name__})
    hear()
    probe.__defaults__ = ()
    return any(holder.thing is probe for holder in told())


def told() -> list[Parts]:
    """List the functions and classes that were changed, named with their modules."""
    return [
        Parts(f"{module_of(thing)}.{thing.__qualname__}", thing, before)
        for place, before in state().parts.copy().values()
        if (thing := place()) is not None
    ]


def is_loaded_by_python(thing: Any) -> bool:
    """Return True unless a loader of the program made the code of a module."""
    if type(thing) is not ModuleType:
        return True
    loader: Any = getattr(thing.__spec__, "loader", None)
    is_class = isinstance(loader, type)
    kind: Any = loader if is_class else type(loader)
    # The program may have set a method of Python's loader.
    own = {} if is_class else getattr(loader, "__dict__", {})
    if any(callable(value) and hasattr(kind, name) for name, value in own.items()):
        return False
    # An application that PyInstaller made has a loader of its own, for kcl too.
    return kind is type(__spec__.loader) or is_theirs(str(kind.__module__))


def is_in_its_package(thing: Any) -> bool:
    """Return True unless a module was loaded from a file that does not lie below its top-level package."""
    if type(thing) is not ModuleType:
        return True
    file = thing.__dict__.get("__file__")
    above = getattr(sys.modules.get(top_of(thing.__name__)), "__file__", None)
    # The library of C code of an editable install may lie elsewhere.
    loader = getattr(thing.__spec__, "loader", None)
    if not file or not above or isinstance(loader, ExtensionFileLoader):
        return True
    paths = os.path.dirname(file), os.path.dirname(above)
    return _is_below(*paths) or _is_below(*map(os.path.realpath, paths))


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)


@functools.cache
def is_theirs(module: str) -> bool:
    """Return True for a module of a package or of Python, and False for one of the program."""
    return distributions.owner(module).kind != distributions.USER


class _Changeable(dict[type, bool]):
    """Class -> whether its objects may hold something that changes, themselves or in code that they call."""

    def __missing__(self, kind: type) -> bool:
        # Classes of C code have no `__slots__`; those without a dictionary, such as islpy's methods, hold nothing.
        has_names = kind.__dictoffset__ != 0 or any(
            "__slots__" in names_of(b) for b in mro_of(kind)
        )
        may_change = self[kind] = kind is not ModuleType and (has_names or issubclass(kind, _OPEN))
        return may_change


# The bound method of a dictionary, so that twenty thousand values are checked in C code when loopy is imported.
_is_changeable = _Changeable().__getitem__


def changeable(holder: Holder) -> Iterator[tuple[Any, Any]]:
    """Yield those (name, value) pairs of a holder whose values may hold something that changes, or call something."""
    values = holder.held
    return compress(values.items(), map(_is_changeable, map(type, values.values())))


def take(name: str, module: ModuleType, inner: Inner, seen: dict[int, Holder]) -> list[Holder]:
    """Return the holder of a module, and those of everything in it that may change in place.

    `inner(thing, pairs)` yields, for the changeable pairs of a thing, (name, ending for the name, value) of each value to
    be taken too. Things in `seen`, by address, are left out.
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
