"""What was changed inside the generators since they were imported: by the program, or by a package as it is imported.

The files of loopy and of what it generates with are in each key. A process that has imported loopy may hold something
else than these files say: a method of an AST builder, an entry of a table, a constant. A baseline holds what the import
of each module gave: the module's names, the bodies of its classes, the items of its tables. Python tells of each change
of a function, which has a baseline from then on.
`now` compares what was changed since its last call; a process without loopy has no baseline and pays nothing.

A module that was imported before kcl could attend counts as it is, except for callables of other packages.
What was changed in pytools and pyopencl while no other generator was there is seen as loopy generates: then nothing is
stored.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from kcl.base import process, settings
from kcl.base.attended import Finder, below_kcl, is_of_kcl
from kcl.cache import layers
from kcl.errors import UnknownInput
from kcl.frontends.loopy.watch import Watch, content_of
from kcl.generate import distributions

GENERATORS = frozenset(distributions.GENERATORS).difference(distributions.ONLY_RUN) | {"pyopencl"}
_OWNERS = distributions.HARMLESS.union(distributions.GENERATORS)
_EMPTY = (CellType(),)  # equal to each cell without content
_MISSING = object()
_UNKNOWN = object()  # stands for a value that was replaced before kcl could see it
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")  # of a function
_TABLES = (dict, list)  # sets are memos of what was warned of, or fields of classes
_PLAIN = frozenset({FunctionType, ModuleType, str, int, tuple, dict, list, type})  # no holders
_CALLED = frozenset({FunctionType, MethodType, staticmethod, classmethod, property})
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))
_NEVER = frozenset({*_CONSTANTS, *_TABLES, tuple, ModuleType})  # called
# Names that decide no code and that loopy or kcl changes: a memo of pytools, and the switch of loopy's disk caches.
_MEMOS = frozenset({"fields", "CACHING_ENABLED"})
_DISK = "pytools.persistent_dict"  # the classes of loopy's disk caches, which kcl does without

Changes = Mapping[tuple[str, Any], Any]  # (name of a holder, name in it) -> the value now


class _Holder:
    """One module, class, object, table or function, with its content as of its import."""

    def __init__(self, name: str, thing: Any) -> None:
        self.name = name
        self.thing = thing
        self.is_table = isinstance(thing, _TABLES)
        self.held = content_of(thing) if isinstance(thing, (ModuleType, type)) else thing
        self.base = self.content()
        self.changes: dict[Any, Any] = {}

    def content(self) -> dict[Any, Any]:
        """Return the content by name: that of a list has one name, and that of a function is its code and defaults."""
        if isinstance(self.held, FunctionType):
            return {part: getattr(self.held, part) for part in _PARTS}
        if isinstance(self.held, CellType):
            return {"cell_contents": self.held.cell_contents}
        if isinstance(self.held, dict):
            return dict(self.held)
        return {"": tuple(self.held)} if isinstance(self.held, list) else dict(vars(self.held))

    def compare(self) -> None:
        """Find the names whose values are not those of the import."""
        found = self.content()
        names = [
            name for name, value in found.items() if self.base.get(name, _MISSING) is not value
        ]
        self.changes = {
            name: found.get(name, _MISSING)
            for name in [*names, *(self.base.keys() - found.keys())]
            if self._counts(name, self.base.get(name, _MISSING), found.get(name, _MISSING))
        }

    def _counts(self, name: Any, before: Any, now: Any) -> bool:
        if isinstance(self.held, FunctionType):
            return True
        if self.is_table:
            return name != "" or type(now) is not tuple or _decisive(now) != _decisive(before)
        if name in _MEMOS or isinstance(before, ModuleType) or isinstance(now, ModuleType):
            return False
        if any(type(one).__module__ == _DISK for one in (before, now)):
            return False
        if name[:2] == "__" and not (callable(now) or callable(before)):
            return False
        if type(now) in _CONSTANTS and type(now) is type(before):
            return bool(now != before)
        functions = _function(now), _function(before)
        if not any(map(is_of_kcl, functions)):
            return now is not before
        below = [*map(below_kcl, functions)]
        return below[0] is not below[1] and not any(map(is_of_kcl, below))

    def put(self, name: Any, value: Any) -> None:
        """Give a name another value; `_MISSING` removes it."""
        if not self.is_table:
            delattr(self.thing, name) if value is _MISSING else setattr(self.thing, name, value)
        elif isinstance(self.thing, dict):
            self.thing.pop(name, None)
            if value is not _MISSING:
                self.thing[name] = value
        else:
            self.thing.clear()
            self.thing.extend(value)


def _decisive(items: Any) -> list[Any]:
    """List the items of a list that may decide code: kcl generates without loopy's caches, which are registered."""
    return [one for one in items if type(one) not in _TABLES and type(one).__module__ != _DISK]


class State(process.LockedState):
    """The holders by name, the modules that they hold, and the changes found last."""

    def __init__(self) -> None:
        super().__init__()
        self.holders: dict[str, _Holder] = {}
        self.order: list[_Holder] = []  # those that are watched
        self.early: Any = None  # the modules that were there before kcl attended
        self.watch = Watch()
        self.functions: dict[FunctionType, _Holder] = {}  # those to which something was ever set
        self.cells: dict[int, tuple[str, Any]] = {}  # id -> where it was found first
        self.is_told = True  # whether this Python tells of that
        self.differing: list[_Holder] = []  # those with changes
        self.modules: set[str] = set()
        self.loaded: dict[str, ModuleType] = {}
        self.changes: Changes = {}
        self.depth = 0  # of imports of the generators that are under way


_state = process.shared(State)


def is_off() -> bool:
    """Return True if the generator layer was off so far: then nothing is compared, and nothing is taken for that."""
    return not _state().modules and bool(layers.off(settings.GENERATOR, "loopy"))


def attend() -> None:
    """Attend to imports of the generators from now on; take those that are there as they are."""
    state = _state()
    is_first = state.early is None
    if is_first:
        state.early = {*_loaded()}
    finder.install()
    if not is_off():
        _take(_loaded())
    if is_first:
        sys.addaudithook(_hear)
        probe = FunctionType(_hear.__code__, {"__name__": "loopy"})
        probe.__defaults__ = ()
        state.is_told = state.functions.pop(probe, None) is not None


def _run(module: ModuleType, loader: Any) -> None:
    """Run a module of the generators; its import may also fill tables of others."""
    state = _state()
    if getattr(state.holders.get(module.__name__), "thing", None) is module:
        loader.exec_module(module)  # `importlib.reload`: what it changes is no import's own
        return
    if not state.depth and state.modules:
        now()
    state.depth += 1
    try:
        loader.exec_module(module)
    finally:
        state.depth -= 1
        if not (state.depth or is_off()):
            with state.lock:
                _absorb()
                _take(_loaded())


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Note the state of a function before somebody sets or deletes a part of it."""
    if event == "object.__setattr__" or event == "object.__delattr__":
        thing, name = arguments[:2]
        if type(thing) is FunctionType and name in _PARTS and thing not in _state().functions:
            module = str(thing.__globals__.get("__name__"))
            if module.partition(".")[0] in GENERATORS and not _state().depth:
                _state().functions[thing] = _Holder(f"{module}.{thing.__qualname__}", thing)


finder = Finder(lambda name: name.partition(".")[0] in GENERATORS, _run)


def _loaded() -> list[ModuleType]:
    # A module of a class of its own may be one that runs at its first use.
    return [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in GENERATORS
        and type(module) is ModuleType
        and name not in _state().modules
    ]


def _absorb() -> None:
    """Take what an import changed for the import's own."""
    state = _state()
    known, holders = state.changes, _changed()
    for holder in holders:
        before, holder.base = holder.base, holder.content()
        for name in {*before, *holder.base}:
            if (holder.name, name) in known or before.get(name) is _UNKNOWN:
                holder.base[name] = before.get(name, _MISSING)
                if holder.base[name] is _MISSING:
                    del holder.base[name]
    _compare(holders)


def _take(modules: list[ModuleType]) -> None:
    """Make the baseline of modules."""
    state = _state()
    _compare(_changed())
    known = len(state.order)
    state.modules.update([module.__name__ for module in modules])
    named = {module.__name__: module for module in modules}
    state.loaded |= {name: one for name, one in named.items() if sys.modules.get(name) is one}
    for module in modules:
        module_name = module.__name__
        _hold(module_name, module)
        for name, value in list(vars(module).items()):
            is_class = isinstance(value, type) and value.__module__ == module_name
            if is_class or (type(value) not in _PLAIN and _is_object(value)):
                _hold(f"{module_name}.{name}", value)
    new = state.order[known:]
    state.watch.add([one.held for one in new])
    if not state.early.isdisjoint(modules):
        _compare(_replaced([one for one in new if not one.is_table]))


def _replaced(holders: list[_Holder]) -> list[_Holder]:
    """Return the holders in which something was replaced before kcl could see it."""
    found = list[_Holder]()
    for holder in holders:
        values = [
            (name, _function(one)) for name, one in holder.base.items() if type(one) not in _NEVER
        ]
        names = [name for name, one in values if callable(one) and not _is_own(one)]
        holder.base |= dict.fromkeys(names, _UNKNOWN)
        found += [holder] if names else []
    return found


def _is_object(value: Any) -> bool:
    """Return True if a value of a module is an object of the generators that may hold a table."""
    module = str(type(value).__module__)
    is_theirs = module.partition(".")[0] in GENERATORS and module != _DISK
    return is_theirs and isinstance(getattr(value, "__dict__", None), dict)


def _hold(name: str, thing: Any) -> None:
    holder = _add(name, thing)
    module = getattr(thing, "__module__", name)
    for key, value in [] if holder is None else [*holder.base.items()]:
        kind = type(value)
        if kind in _TABLES and key not in _MEMOS and key[:2] != "__":
            # the tables of pyopencl are memos; that of dtypes is in each key
            if not name.startswith("pyopencl"):
                _add(f"{name}.{key}", value)
        elif kind in _CALLED:
            function = value if kind is FunctionType else _function(value)
            defaults = getattr(function, "__kwdefaults__", None)
            if defaults and module == function.__globals__.get("__name__"):
                _add(f"{name}.{key}.__kwdefaults__", defaults)
            for number, cell in enumerate(getattr(function, "__closure__", None) or ()):
                # what a decorator of theirs calls; other cells hold memos
                if cell not in _EMPTY and type(cell.cell_contents) is FunctionType:
                    cells = _state().cells  # a function has several names
                    if cells.setdefault(id(cell), (name, key)) == (name, key):
                        _add(f"{name}.{key}.<cell {number}>", cell)


def _add(name: str, thing: Any) -> _Holder | None:
    state = _state()
    if name in state.holders:
        return None
    holder = state.holders[name] = _Holder(name, thing)
    state.order.append(holder)
    return holder


def _function(value: Any) -> Any:
    """Return the function behind a method; any other value as it is."""
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return value.__func__
    return value.fget if isinstance(value, property) else value


def _is_own(function: Any) -> bool:
    """Return True if a function has code of the generators, of what they require, or of Python.

    A class, or an object that is called, is their own unless its class is the user's.
    """
    function = below_kcl(function)
    if not isinstance(function, FunctionType):
        kind = function if isinstance(function, type) else type(function)
        return _is_theirs(str(kind.__module__))
    module = str(function.__globals__.get("__name__", ""))
    return _has_own_code(module, function.__code__.co_filename)


@functools.cache
def _is_theirs(module: str) -> bool:
    top = module.partition(".")[0]
    return top in GENERATORS or distributions.owner(module).kind != distributions.USER


@functools.cache
def _has_own_code(module: str, file: str) -> bool:
    top = module.partition(".")[0]
    if not module:  # a generator made it of a text
        return file[:1] == "<"
    if top in GENERATORS:
        loaded = getattr(sys.modules.get(module), "__file__", None)
        path = os.path.join(distributions.ARCHIVE, file)
        return file[:1] == "<" or loaded in (path, f"{path}c")
    if top == "kcl" or top in sys.stdlib_module_names or top.startswith("namedtuple_"):
        return True
    whose = distributions.owner(module)
    return whose.kind == distributions.DISTRIBUTION and whose.name in _OWNERS


def refuse() -> None:
    """Raise UnknownInput if something inside the generators is changed now: no key holds what they generate then."""
    found = now()
    if not _state().is_told:
        raise UnknownInput("this Python tells of no change of a function")
    for holder, name in found:
        raise UnknownInput(
            f"{holder}.{name} was changed in this process: nothing is stored before it is put back"
        )
    for name, module in [*_state().loaded.items()]:
        if sys.modules.get(name, module) is not module:  # one whose import failed is not there
            raise UnknownInput(f"module {name} was replaced in this process: nothing is stored")


def now() -> Changes:
    """Return the changes in the generators as of now."""
    state = _state()
    if state.depth or (
        "loopy" in sys.modules and not hasattr(sys.modules["loopy"], "untag_inames")
    ):
        return {}  # a thread is importing it
    with state.lock:
        if not state.modules:
            attend()
        _compare(_changed())
        return state.changes


def _changed() -> list[_Holder]:
    """List the holders that were changed since the last call."""
    state = _state()
    return [*[state.order[place] for place in state.watch.changed()], *state.functions.values()]


def _compare(holders: list[_Holder]) -> None:
    """Find the changes in some holders."""
    state = _state()
    for holder in holders:
        holder.compare()
    if holders:
        found = dict.fromkeys([*state.differing, *holders])
        state.differing = [one for one in found if one.changes]
        state.changes = {
            (one.name, name): value
            for one in state.differing
            for name, value in one.changes.items()
        }


@contextmanager
def as_imported() -> Iterator[None]:
    """Let the generators be in a block as their imports left them, for a call that waited."""
    state, found = _state(), now()
    if not found:
        yield
        return
    with state.lock:  # no other thread takes the earlier state for the present one
        changed = [(holder, name) for holder in state.differing for name in holder.changes]
        values = [holder.content().get(name, _MISSING) for holder, name in changed]
        for holder, name in changed:
            if holder.base.get(name) is not _UNKNOWN:
                holder.put(name, holder.base.get(name, _MISSING))
        try:
            yield
        finally:
            for (holder, name), value in zip(changed, values, strict=True):
                holder.put(name, value)


def original(holder: str, name: str) -> Any:
    """Return the function or class that the import of a generator gave a name in a holder; None for anything else."""
    state = _state()
    if not state.modules:
        attend()
    found = state.holders[holder].base.get(name) if holder in state.holders else None
    return None if found is _UNKNOWN or isinstance(found, functools.partial) else below_kcl(found)
