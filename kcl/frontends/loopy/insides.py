"""Finds what was changed inside the generators (loopy and the libraries it generates with) after their import.

Keys have the files of the generators. But a program, or a package that it imports, may change loopy in memory: a method
of an AST builder, an entry of a table, a constant. For each module of the generators a baseline keeps what its import
left: the module's names, class bodies, items of tables, and changes that the import made in other modules. `now` compares
what has changed since its last call. A process without loopy has no baseline and pays nothing.

A module that was imported before kcl could attend counts as it is, except for callables of other packages.
What was changed in pytools and pyopencl while no other generator was there is seen as loopy generates: then nothing is
stored. The baseline has Python's builtins, too, without those that no text depends on. One that was replaced before kcl
could attend counts as changed, whosever the other one is.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import compress, takewhile
from operator import is_not
from threading import get_ident
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from kcl import foreign
from kcl.base import is_being_imported, is_of_kcl, process, settings, unwrap
from kcl.cache import layers, locks
from kcl.errors import UnknownInput
from kcl.frontends import FACED
from kcl.frontends.loopy import baseline, generators, is_generators
from kcl.frontends.loopy.baseline import (
    MISSING,
    TEXTS,
    Holder,
    Inside,
    Pairs,
    module_of,
    parts_of,
)
from kcl.frontends.loopy.plain import loaded
from kcl.frontends.loopy.watch import Contents, Watch
from kcl.generate import GENERATORS, distributions, top_of

_OWNERS = distributions.HARMLESS.union(GENERATORS)
# An empty cell, to compare others with.
_EMPTY = CellType()
# Marks a value that was replaced before kcl could see it.
_UNKNOWN = object()
# Stands in a module for the code of its file, if a loader of the program made another one.
_LOADER = "the code of its file"
# Sets are left out: in the generators they are memos of warnings, or fields of classes.
_TABLES = (dict, list)
_METHODS = (MethodType, staticmethod, classmethod, property)
_PATIENCE = 1.0  # seconds
# Names that loopy or kcl changes and that decide no code: a memo of pytools, and the switch of loopy's disk caches.
_MEMOS = {"fields", "CACHING_ENABLED", FACED}
# The module of loopy's disk caches, which are off while kcl generates.
_DISK = "pytools.persistent_dict"
# Builtins by which a program talks to somebody. It may replace them, and no text depends on them.
_TALKING = frozenset({"print", "input", "breakpoint", "__import__"})
# Builtins of another name or module.
_ALIASES = frozenset({"EnvironmentError", "IOError", "WindowsError", "__loader__"})
# The classes of the other builtins that can be called.
_KINDS = {type, type(len)}
# A thread in one of these modules is on its way into a generator.
_WAYS = frozenset({"kcl.cache.lookup", "kcl.frontends.loopy.face"})
# A thread in this module waits for the others.
_WAITING = "kcl.foreign"

# (name of a holder, name in it) -> present value
Changes = Mapping[tuple[str, Any], Any]


class Builtins(Holder):
    """Python's builtins with the names that they began with."""

    __slots__ = ()

    def __init__(self) -> None:
        # `open` is the last one that Python makes. What is behind it was put there later, or talks to somebody, too.
        names = [name for name in takewhile("open".__ne__, vars(builtins)) if name not in _TALKING]
        super().__init__("builtins", builtins, {name: _original(name) for name in names})

    def now(self) -> dict[Any, Any]:
        """Return what these names are now."""
        return {name: value for name, value in super().now().items() if name in self.held}


def _original(name: str) -> Any:
    """Return a builtin, or `_UNKNOWN` for a callable that is not Python's own of this name."""
    value = vars(builtins)[name]
    is_own = type(value) in _KINDS and (value.__module__, value.__name__) == ("builtins", name)
    return value if is_own or name in _ALIASES or not callable(value) else _UNKNOWN


_BUILTINS = id(builtins), Builtins


class TakenGenerators(process.LockedState):
    """The baselines of the generators' modules, and the changes that were found."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: dict[str, ModuleType] = {}
        # Address of a thing -> its holder, in the order in which `watch` numbers them.
        self.found: dict[int, Holder] = {}
        self.named: dict[str, Holder] = {}
        self.watch = Watch()
        # (address of the thing, class of the holder) -> (holder, present values of the changed names)
        self.differing: dict[Any, tuple[Holder, Any]] = {}
        # What `as_imported` puts back, by the same places: the arguments of `_put`. And the thread in its block, or 0.
        self.restored: dict[Any, tuple[Any, Contents, Contents, int]] = {}
        self.thread = 0
        # The changes for which a call waited in vain to be alone.
        self.waited: Changes = {}

    def put_back(self) -> None:
        """Put the program's changes back, at the end of `as_imported`."""
        with self.lock:
            for place, changed in [*self.restored.items()]:
                try:
                    _put(*changed)
                finally:
                    self.restored.pop(place, None)
            self.thread = 0

    def after_fork(self) -> None:
        # In a forked child the block of another thread never ends.
        if self.thread != get_ident():
            self.put_back()


_state = process.shared(TakenGenerators)


def is_off() -> bool:
    """Return True if the generator layer has been off so far: then no baseline is kept and nothing is compared."""
    return not _state().modules and bool(layers.off(settings.GENERATOR, "loopy"))


def attend() -> None:
    """Listen to imports of the generators from now on; modules that are imported already get their present state."""
    generators.install()
    if not is_off():
        with _state().lock:
            _take()
            baseline.hear([*_state().modules])


def note_begin(_group: str) -> None:
    """Before an import, find the present changes, so that those of the import can be told from them."""
    if is_off():
        return
    with _state().lock:
        if _state().modules:
            now()
        _take()


def note_end(_names: list[str]) -> None:
    """After imports, add the new modules to the baseline, and what the imports changed in others."""
    if not is_off():
        with _state().lock:
            _absorb()
            _take()
            baseline.hear([*_state().modules])


def _absorb() -> None:
    """Make changes by imports of generators a part of the baseline; changes that were found before stay changes."""
    changes, holders = _changes(), _changed()
    for holder in holders:
        names = [
            name
            for name, value in holder.differing().items()
            if (holder.name, name) not in changes and _is_own(value)
        ]
        _put(holder.held, names, holder.now())
    _compare(holders)


def _take() -> None:
    """Make the baseline of modules of the generators that have none yet. What others put there counts as a change."""
    state = _state()
    new: list[Holder] = [] if state.found else [Builtins()]
    state.found |= {id(holder.thing): holder for holder in new}
    # Modules of another class are left out: they may be lazy ones.
    modules = {
        name: module
        # The list is a copy: another thread may import a module meanwhile.
        for name, module in list(sys.modules.items())
        if type(module) is ModuleType
        and name not in state.modules
        and is_generators(name)
        # What its import still adds would count as added by the program.
        and not is_being_imported(module)
    }
    if not (modules or new):
        return
    for name, module in modules.items():
        new += baseline.take(name, module, _inner, state.found)
    state.modules |= modules
    state.named |= {holder.name: holder for holder in new}
    state.watch.add([holder.thing for holder in new])
    for holder in [holder for holder in new if not isinstance(holder.thing, _TABLES)]:
        # A program, or its import hook, put these there. What was in their place is not known.
        names = [name for name, value in baseline.changeable(holder) if not _is_own(value)]
        is_loaded = baseline.is_loaded_by_python(holder.thing)
        names += [] if is_loaded and baseline.is_in_its_package(holder.thing) else [_LOADER]
        holder.held |= dict.fromkeys(names, _UNKNOWN)
        if names or isinstance(holder, Builtins):
            _compare([holder])
        bases = parts_of(holder.thing)["__bases__"] if isinstance(holder.thing, type) else ()
        if not all(_is_first_base(holder.thing, base) for base in bases):
            baseline.note(holder.thing, {"__bases__": _UNKNOWN})
            _compare(_changed())


def _inner(thing: Any, pairs: Pairs) -> Iterator[Inside]:
    """Yield the values in a module, class or object of the generators that may change in place (see `baseline.take`)."""
    if isinstance(thing, _TABLES):
        return
    is_module = type(thing) is ModuleType
    # A decorated function is in a cell of the wrapper, and may have defaults.
    named = thing.cell_contents if type(thing) is CellType else thing
    module = named.__name__ if is_module else named.__module__
    for key, value in pairs:
        kind = type(value)
        # Tested first, since few of six thousand functions hold something that may change.
        if kind is FunctionType and not (value.__closure__ or value.__kwdefaults__):
            continue
        if kind is FunctionType or kind in _METHODS:
            function = value if kind is FunctionType else _function(value)
            for number, cell in enumerate(getattr(function, "__closure__", None) or ()):
                # A cell with a function holds a decorated function. Other cells hold memos.
                if cell != _EMPTY and type(cell.cell_contents) is FunctionType:
                    yield key, f".<cell {number}>", cell
            defaults = getattr(function, "__kwdefaults__", None)
            if defaults and function.__globals__.get("__name__") == module:
                yield key, ".__kwdefaults__", defaults
        elif isinstance(value, type):
            if value.__module__ == module:
                yield key, "", value
        elif kind in _TABLES:
            # pyopencl's tables are memos, except its registry of dtypes, which is in each key.
            if key[:2] != "__" and not module.startswith("pyopencl"):
                yield key, "", value
        elif is_module and _is_object(value):
            yield key, "", value


def _is_object(value: Any) -> bool:
    """Return True for an object of a generator's class with attributes."""
    module = str(type(value).__module__)
    return is_generators(module) and module != _DISK and hasattr(value, "__dict__")


def _counts(holder: Holder, name: Any, now: Any) -> bool:
    """Return True if the new value of a name may be a change by the program."""
    thing, before = holder.thing, holder.held.get(name, MISSING)
    kinds = type(before), type(now)
    if any(kind.__module__ == _DISK for kind in kinds):
        return False
    # A list in which tables (caches) are registered grows by itself.
    if isinstance(thing, list):
        is_nothing = not {*kinds}.isdisjoint(_TABLES)
    else:
        is_nothing = type(thing) is not dict and (name in _MEMOS or holder.is_nothing(name, now))
    if is_nothing or (
        kinds[0] is kinds[1] in TEXTS and TEXTS[kinds[0]](before) == TEXTS[kinds[0]](now)
    ):
        return False
    functions = _method(now), _method(before)
    below = [*map(unwrap, functions)]
    is_kcls = any(map(is_of_kcl, functions))
    return not is_kcls or (below[0] is not below[1] and not any(map(is_of_kcl, below)))


def _method(value: Any) -> Any:
    """Return the function behind a method or property; any other value unchanged."""
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return value.__func__
    return value.fget if isinstance(value, property) else value


def _function(value: Any) -> Any:
    """Return the function behind a method or property, or in an object of functools; any other value unchanged."""
    if type(value).__module__ == "functools":
        return getattr(value, "func", getattr(value, "__wrapped__", value))
    return _method(value)


def _is_own(value: Any) -> bool:
    """Return True unless a value calls code that belongs neither to the generators, nor their requirements, nor Python.

    A class passes unless it is the user's. So does an object that is not called; a mock of Python's is.
    """
    function = _function(value)
    if function is not value:
        return _is_own(function)
    if type(function) is FunctionType:
        # The program's own function may stand below one of kcl's, or of Python's.
        below = getattr(function, "__wrapped__", None)
        module = str(function.__globals__.get("__name__", ""))
        return _has_own_code(module, function.__code__.co_filename) and _is_own(below)
    is_class = isinstance(function, type)
    module = str((function if is_class else type(function)).__module__)
    if is_class or not callable(function):
        return baseline.is_theirs(module)
    # "nanobind", the word of C code for its functions, is no module here.
    is_named = module in sys.modules
    return not is_named or (_is_of_owner(module) and top_of(module) != "unittest")


@functools.cache
def _has_own_code(module: str, file: str) -> bool:
    # A file such as "<string>": the generator has made the function from a text.
    if not module or is_generators(module):
        path, own = os.path.join(distributions.ARCHIVE, file), str(loaded(module, "__file__"))
        # Compiled files that were moved, or are in an archive, have the path of before below the package.
        _above, package, below = own.rpartition(f"{os.sep}{top_of(module)}{os.sep}")
        is_moved = package and own.endswith(".pyc") and f"{os.sep}{path}c".endswith(package + below)
        return file[:1] == "<" or own in (path, f"{path}c") or bool(is_moved)
    return _is_of_owner(module)


def _is_first_base(kind: type, base: type) -> bool:
    """Return True if a base class may come from the class statement, and was not set later.

    It does if it belongs to the generators or their requirements, or if the module of the class imports it.
    """
    names = loaded(module_of(kind), "__dict__", {})
    module = module_of(base)
    package = sys.modules.get(top_of(module), base)
    return _is_of_owner(module) or any(
        value is base or value is package for value in names.values()
    )


@functools.cache
def _is_of_owner(module: str) -> bool:
    whose = distributions.owner(module)
    is_pythons = whose.kind in (distributions.PYTHON, distributions.KCL)
    return is_pythons or whose.name in _OWNERS or module.startswith("namedtuple_")


def refuse() -> None:
    """Raise UnknownInput if something inside the generators is changed now, since no key describes that."""
    changes, state = now(), _state()
    if state.thread not in (0, get_ident()):
        # Another thread has taken the changes away for its block. This thread's code must have them, so it waits; not for
        # long, since the other thread may wait for this one.
        foreign.wait_for_loopy(_PATIENCE)
    if not baseline.is_told():
        raise UnknownInput("this Python tells of no change of a function")
    for holder, name in changes:
        if name is _LOADER:
            raise UnknownInput(
                f"the code of module {holder} was changed by a loader or a path of the program: nothing is stored"
            )
        raise UnknownInput(
            f"{holder}.{name} was changed in this process: nothing is stored before it is put back"
        )
    modules = state.modules.copy()
    present = map(sys.modules.get, modules, modules.values())
    # A module whose import failed is missing, which is no replacement.
    for name in compress(modules, map(is_not, present, modules.values())):
        raise UnknownInput(f"module {name} was replaced in this process: nothing is stored")


def now() -> Changes:
    """Return the present changes in the generators."""
    state = _state()
    loopy = sys.modules.get("loopy")
    if generators.is_under_way() or is_being_imported(loopy):
        # A thread is importing one of them: earlier changes are known, and the baseline is made at the end of the import.
        return _changes()
    with state.lock:
        # A finder before kcl's, such as typeguard's, may have kept an import from being heard.
        if not state.modules or (loopy is not None and "loopy" not in state.modules):
            attend()
        _compare(_changed())
        return _changes()


def _changes() -> Changes:
    """Return the changes that were found so far."""
    return {
        (holder.name, name): value
        for holder, names in [*_state().differing.values()]
        for name, value in names.items()
    }


def _changed() -> list[Holder]:
    """List the holders that changed since the last call, and all functions and classes noted by the audit hook."""
    state = _state()
    if not state.modules:
        return []
    places = state.watch.changed()
    order = [*state.found.values()] if places else []
    watched = [order[place] for place in places]
    return watched + [holder for holder in baseline.told() if is_generators(holder.name)]


def _compare(holders: list[Holder]) -> None:
    """Compare holders with their baselines, and keep the changes."""
    state = _state()
    for holder in holders:
        names = {
            name: value
            for name, value in holder.differing().items()
            if _counts(holder, name, value)
        }
        place = id(holder.thing), type(holder)
        if place in state.restored:
            # Restored only for a block of `as_imported`, so it still counts as changed.
            names = {**state.restored[place][1], **names}
        state.differing.pop(place, None)
        if names:
            state.differing[place] = holder, names


@contextmanager
def as_imported() -> Iterator[bool]:
    """Let the generators be in a block as their imports left them, for a call that waited; yield False if they are not.

    They stay as they are while another thread generates with the changes, and if a builtin was changed, which all threads
    share. The caller lets one thread at a time in. The block holds no lock: its call may wait for the import of another
    thread, which looks for changes as it ends. That thread finds the changes of before the block.
    """
    changes, state = now(), _state()
    if not changes or state.thread:
        # In the block of another call it is as there.
        yield not changes or bool(state.restored)
        return
    try:
        # From now on the others wait, see `refuse`.
        state.thread = get_ident()
        # Each of a hundred records would wait as long for the same thread.
        longest = 0.0 if changes.keys() == state.waited.keys() else _PATIENCE
        is_alone = _BUILTINS not in state.differing and locks.wait(_is_alone, lambda: longest)
        state.waited = {} if is_alone else changes
        with state.lock:
            for place, (holder, names) in state.differing.items() if is_alone else ():
                thing, held, before = holder.thing, holder.held, holder.now()
                state.restored[place] = thing, names, before, len(held)
                # An unknown value cannot be put back.
                known = [name for name in names if held.get(name) is not _UNKNOWN]
                _put(thing, known, held, len(before))
        yield is_alone
    finally:
        try:
            state.put_back()
        finally:
            # Once more, since an interrupt may have ended the first call.
            state.put_back()


def _is_alone() -> bool:
    """Return True if no other thread is in a function of a generator, or on its way from `refuse` into one."""
    for thread, frame in sys._current_frames().items():
        inner: Any = frame if thread != get_ident() else None
        # A thread that waits goes on after the block. One that imports a generator runs no function of it for long.
        while inner is not None and (name := str(inner.f_globals.get("__name__"))) != _WAITING:
            is_function = is_generators(name) and inner.f_code.co_name != "<module>"
            if is_function or name in _WAYS:
                return False
            inner = inner.f_back
    return True


def _put(thing: Any, names: Iterable[Any], contents: Contents, length: int = 0) -> None:
    """Let names have the values that they have in `contents`, or none; `length` is the number of items in a list."""
    if isinstance(thing, list):
        # As a whole, since its places move with each item; but for the items that others have added since.
        thing[:length] = [contents[place] for place in sorted(contents)]
        return
    for name in names:
        value = contents.get(name, MISSING)
        if isinstance(thing, dict):
            thing.pop(name, None)
            thing |= {} if value is MISSING else {name: value}
        elif value is MISSING:
            with suppress(AttributeError):
                delattr(thing, name)
        else:
            setattr(thing, name, value)


def original(holder: str, name: str) -> Any:
    """Return the function or class that a name in a holder had after the generator's import; None for another value."""
    state = _state()
    if "loopy" not in state.modules:
        attend()
    value = state.named[holder].held.get(name) if holder in state.named else None
    return None if value is _UNKNOWN or isinstance(value, functools.partial) else unwrap(value)


# For a process that imports this module before the generators.
generators.receive(note_end, note_begin)
