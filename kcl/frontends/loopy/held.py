"""What the modules of packages hold: what was changed there since their import.

A package counts by its files as long as its modules hold what their imports gave. A module is taken as its import ends:
its names, the bodies of its classes, attributes of its functions and objects, tables. Python tells of other changes of
a function. A key has the content of what differs, in a package and in what that requires. Of a module that was imported
before kcl attended it has plain values, and the names of functions and classes.
"""

from __future__ import annotations

import operator
import sys
from collections import deque
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from kcl.base import process
from kcl.errors import UnknownInput
from kcl.frontends import FACED
from kcl.frontends.loopy.callables.classes import NOT_IN_CLASS, class_attributes, is_memo, slots
from kcl.frontends.loopy.plain import SIMPLE, shorten
from kcl.frontends.loopy.watch import Watch, content_of
from kcl.generate import distributions

_MISSING = object()
_SIMPLE = {**SIMPLE, str: repr}
# the classes of values that hold nothing which changes
_FIXED = frozenset(
    {*_SIMPLE, ModuleType, BuiltinFunctionType, property, classmethod, staticmethod, tuple}
)
_FIXED_BELOW = _FIXED | {
    FunctionType
}  # the attributes of other functions than a module's are left out
_TABLES = (dict, list, set, deque)
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")  # of a function
# the names that Python's import gives a module, and kcl's own
_OF_MODULES = frozenset(
    (
        *("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__cached__"),
        *("__path__", "__builtins__", "__annotations__", "__warningregistry__", FACED),
    )
)
_IGNORED = _OF_MODULES | NOT_IN_CLASS


class _Holder(NamedTuple):
    """A module, class, object or table, with what it held as it was taken."""

    name: str
    thing: Any
    held: dict[Any, Any]


class State(process.LockedState):
    """What the imports of modules gave, and what packages are compared with."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[str, list[_Holder]] = {}
        # functions of which a part was set, with the parts before
        self.functions = WeakKeyDictionary[FunctionType, tuple[Any, ...]]()
        self.packages: dict[str, tuple[_Package, str]] = {}
        sys.addaudithook(_hear)


_state = process.shared(State)


def take(names: list[str]) -> None:
    """Take what modules hold as their imports ended. No error of theirs reaches the import."""
    taken = _state().taken
    with suppress(Exception):
        for name in names:
            module = sys.modules.get(name)
            taken[name] = _holders(name, module) if isinstance(module, ModuleType) else []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Note the parts of a function of a taken module before somebody sets or deletes one."""
    if event == "object.__setattr__" or event == "object.__delattr__":
        thing, name = arguments[:2]
        if type(thing) is FunctionType and name in _PARTS and thing.__module__ in _state().taken:
            _state().functions.setdefault(thing, _parts(thing))


def _parts(function: FunctionType) -> tuple[Any, ...]:
    return tuple([getattr(function, name) for name in _PARTS])


def _holders(name: str, module: ModuleType) -> list[_Holder]:
    """List a module, which comes first, and what in it may change."""
    found, waiting, top = dict[int, _Holder](), deque([(name, module)]), name.partition(".")[0]
    while waiting:
        name, thing = waiting.popleft()
        if id(thing) not in found:
            found[id(thing)] = _Holder(name, thing, held := _items(thing))
            fixed = _FIXED if type(thing) is ModuleType else _FIXED_BELOW
            for key, value in held.items():
                if type(value) not in fixed and key not in _IGNORED:
                    inner = _holding(value, top, thing)
                    if inner is not None:
                        waiting.append(
                            (f"{name}.{key}" if type(key) is str else f"{name}[]", inner)
                        )
    return [*found.values()]


def _holding(value: Any, top: str, holder: Any) -> Any:
    """Return what of a value in a holder may change in place; None for any other value."""
    kind: Any = type(value)
    if kind is FunctionType:
        return vars(value) if value.__module__ == holder.__name__ else None
    if issubclass(kind, _TABLES):
        return value
    package = str((value if issubclass(kind, type) else kind).__module__).partition(".")[0]
    is_own = package == top or kind is SimpleNamespace
    return value if is_own and not isinstance(holder, _TABLES) else None


def _items(thing: Any) -> dict[Any, Any]:
    """Return what something holds, by name or place."""
    kind: Any = type(thing)
    if kind is dict or issubclass(kind, (ModuleType, type)):
        found: dict[Any, Any] = (thing if kind is dict else vars(thing)).copy()
        return found
    found = {}
    with suppress(AttributeError):  # the class may have an attribute of that name
        found = dict(object.__getattribute__(thing, "__dict__"))
    for name, member in slots(kind):
        with suppress(AttributeError):
            found[name] = member.__get__(thing, kind)
    if issubclass(kind, dict):
        found |= dict.items(thing)
    elif issubclass(kind, _TABLES):
        found |= dict.fromkeys(thing) if issubclass(kind, set) else enumerate(thing)
    return found


def _flat(thing: Any) -> tuple[Any, ...]:
    held = _items(thing)
    return *held, *held.values()


def _is_same(before: dict[Any, Any], now: dict[Any, Any]) -> bool:
    return len(before) == len(now) and all(
        map(operator.is_, (*before, *before.values()), (*now, *now.values()))
    )


def _differing(holder: _Holder, encoder: Any) -> list[str]:
    """Return the texts of what a holder holds and did not hold as it was taken."""
    before, now, thing = holder.held, _items(holder.thing), holder.thing
    if _is_same(before, now):
        return []
    if isinstance(thing, _TABLES):
        return [f"{holder.name}: {encoder.encode(thing)}"]
    found = []
    for key in {**before, **now}:
        value = now.get(key, _MISSING)
        if value is not before.get(key, _MISSING) and not _is_nothing(holder, key, value):
            body = class_attributes(value) if isinstance(value, type) else ()
            text = "gone" if value is _MISSING else encoder.encode([value, *body])
            found.append(f"{holder.name}.{key}: {text}")
    return found


def _is_nothing(holder: _Holder, key: Any, value: Any) -> bool:
    """Return True for a name of Python's, a module that is below its package, and what loopy remembers on an object."""
    if type(key) is not str or key in _IGNORED:
        return type(key) is str
    if isinstance(value, ModuleType):
        return sys.modules.get(f"{holder.name}.{key}") is value
    kind: Any = type(holder.thing)
    return not isinstance(holder.thing, (ModuleType, type)) and is_memo(kind, key)


def _shown(holder: _Holder) -> str:
    """Return the text of what a holder holds, as far as that is known without a walk."""
    held = [pair for pair in holder.held.items() if not _is_nothing(holder, *pair)]
    return (
        f"{holder.name}: {', '.join(sorted([f'{_token(key)}={_token(one)}' for key, one in held]))}"
    )


def _token(value: Any) -> str:
    kind = type(value)
    write = _SIMPLE.get(kind)
    if write is not None:
        return write(value)
    if kind is tuple or kind is frozenset:
        return f"{kind.__name__}({', '.join(map(_token, value))})"
    if kind is ModuleType:
        return f"module {value.__name__}"
    function = value if kind is FunctionType else None
    if function is None and not issubclass(kind, type):
        return f"{kind.__module__}.{kind.__qualname__}"
    module = value.__module__ if function is None else function.__globals__.get("__name__")
    name = f"{module}.{value.__qualname__}"
    if distributions.owner(str(module)).kind == distributions.USER:
        raise UnknownInput(f"{name} is code of the program, which no key holds")
    return name if function is None else f"{name}{_token(function.__defaults__ or ())}"


class _Package:
    """What the loaded modules of a distribution, and of what it requires, hold at one moment."""

    def __init__(self, distribution: str) -> None:
        required = distributions.requirements(distribution)
        self._distributions = {distribution, *required}.difference(distributions.HARMLESS)
        self._seen, self._heard = {*sys.modules}, len(_state().functions)
        self._modules = {name: sys.modules.get(name) for name in self._mine(self._seen)}
        self._taken, self._early = list[_Holder](), list[_Holder]()
        for name, module in self._modules.items():
            holders = _state().taken.setdefault(name, [])
            if holders and holders[0].thing is module:
                self._taken += holders
            elif isinstance(module, ModuleType):
                self._early += _holders(name, module)
        self._watch = Watch(_flat)
        self._watch.add([_watched(one.thing) for one in (*self._taken, *self._early)])

    def _mine(self, names: set[str]) -> list[str]:
        """List the modules of these distributions, by the owners of their top-level modules."""
        found = []
        for name in names:
            top = name.partition(".")[0]
            if distributions.is_others(top):
                is_namespace = getattr(sys.modules.get(top), "__file__", None) is None
                whose = distributions.owner(name if is_namespace else top)
                found += [name] if whose.name in self._distributions else []
        return sorted(found)

    def stands(self) -> bool:
        """Return True if nothing was changed, replaced or imported since."""
        seen, self._seen = self._seen, {*sys.modules}
        is_same = all(sys.modules.get(name) is one for name, one in self._modules.items())
        is_same = is_same and self._heard == len(_state().functions)
        return is_same and not (self._watch.changed() or self._mine(self._seen - seen))

    def texts(self, encoder: Any) -> tuple[list[str], str]:
        """Return the texts of what differs, and the text of what was there before kcl attended."""
        differing = [line for one in self._taken for line in _differing(one, encoder)]
        for function, before in [*_state().functions.items()]:
            module: Any = self._modules.get(function.__module__)
            is_mine = function.__globals__ is getattr(module, "__dict__", None)
            if is_mine and any(map(operator.is_not, before, _parts(function))):
                differing.append(f"{function.__qualname__}: {encoder.encode(function)}")
        return differing, "; ".join(map(_shown, self._early))


def text(distribution: str, encoder: Any) -> str:
    """Return the text of what a distribution, and what it requires, hold; raise UnknownInput if no key can hold it."""
    state = _state()
    with state.lock:
        known = state.packages.get(distribution)
        if known is not None and known[0].stands():
            return known[1]
        package = _Package(distribution)
        differing, early = package.texts(encoder)
        found = shorten("; ".join([*differing, early]))
        if not differing:  # what somebody put there is not watched
            state.packages[distribution] = package, found
        return found


def _watched(thing: Any) -> Any:
    return content_of(thing) if isinstance(thing, (ModuleType, type)) else thing
