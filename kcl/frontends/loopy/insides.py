"""What was changed inside the generators since they were imported: by the program, or by a package as it is imported.

The files of loopy and of what it generates with are in each key. A process that has imported loopy may hold something
else than these files say: a method of an AST builder, an entry of a table, a constant. A baseline holds what the import
of each module gave: the module's names, the bodies of its classes, the items of its tables, and what the import put
elsewhere. `now` compares what was changed since its last call; a process without loopy has no baseline and pays nothing.

A module that was imported before kcl could attend counts as it is, except for callables of other packages.
What was changed in pytools and pyopencl while no other generator was there is seen as loopy generates: then nothing is
stored.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import compress
from operator import is_not
from threading import get_ident
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from kcl import foreign
from kcl.base import is_being_imported, is_of_kcl, process, settings, unwrap
from kcl.cache import layers
from kcl.errors import UnknownInput
from kcl.frontends import FACED
from kcl.frontends.loopy import baseline, generators, is_generators
from kcl.frontends.loopy.baseline import MISSING, TEXTS, Holder, Pairs
from kcl.frontends.loopy.watch import Watch
from kcl.generate import GENERATORS, distributions

_OWNERS = distributions.HARMLESS.union(GENERATORS)
# Equal to each cell without content.
_EMPTY = CellType()
# Stands for a value that was replaced before kcl could see it.
_UNKNOWN = object()
# Stands in a module for the code of its file, if a loader of the program made another one.
_LOADER = "the code of its file"
# Sets are memos of what was warned of, or fields of classes.
_TABLES = (dict, list)
_METHODS = (MethodType, staticmethod, classmethod, property)
_PATIENCE = 1.0  # seconds
# Names that decide no code and that loopy or kcl changes: a memo of pytools, and the switch of loopy's disk caches.
_MEMOS = frozenset({"fields", "CACHING_ENABLED", FACED})
# The module of the classes of loopy's disk caches, which kcl does without.
_DISK = "pytools.persistent_dict"

# The value now, by the name of a holder and the name in it.
Changes = Mapping[tuple[str, Any], Any]


class TakenGenerators(process.LockedState):
    """The modules that were taken, what they hold, and what is changed there."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: dict[str, ModuleType] = {}
        # The holders by the address of the thing, in the order of the watch.
        self.found: dict[int, Holder] = {}
        self.named: dict[str, Holder] = {}
        self.watch = Watch()
        # The holders with changes, by the address of the thing and their class, and what the changed names are now.
        self.differing: dict[Any, tuple[Holder, Any]] = {}
        # What `as_imported` puts back, by the same places: the thing, the changed names and the contents. And the thread in
        # its block.
        self.restored: dict[Any, tuple[Any, dict[Any, Any], dict[Any, Any]]] = {}
        self.thread = 0

    def put_back(self) -> None:
        """Let the generators be as before `as_imported`."""
        with self.lock:
            for place, changed in [*self.restored.items()]:
                try:
                    _put(*changed)
                finally:
                    self.restored.pop(place, None)

    def after_fork(self) -> None:
        # The block of another thread never ends here.
        if self.thread != get_ident():
            self.put_back()


_state = process.shared(TakenGenerators)


def is_off() -> bool:
    """Return True if the generator layer was off so far: then nothing is compared, and nothing is taken for that."""
    return not _state().modules and bool(layers.off(settings.GENERATOR, "loopy"))


def attend() -> None:
    """Attend to imports of the generators from now on; take those that are there as they are."""
    generators.install()
    if not is_off():
        with _state().lock:
            _take()
            baseline.hear([*_state().modules])


def note_begin(_group: str) -> None:
    """Find the changes before an import; take what is there, and was not heard."""
    if is_off():
        return
    with _state().lock:
        if _state().modules:
            now()
        _take()


def note_end(_names: list[str]) -> None:
    """Take what imports that ended brought, and what they changed."""
    if not is_off():
        with _state().lock:
            _absorb()
            _take()
            baseline.hear([*_state().modules])


def _absorb() -> None:
    """Take what imports changed for their own; a change that was found before stays one."""
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
    """Make the baseline of the modules that are there now. What others than the generators put there is a change."""
    state, new = _state(), list[Holder]()
    # A module of a class of its own may be one that runs at its first use.
    modules = {
        name: module
        # The list is a copy: another thread may import a module meanwhile.
        for name, module in list(sys.modules.items())
        if type(module) is ModuleType
        and name not in state.modules
        and is_generators(name)
        # What such a module lacks would count as added by the program.
        and not is_being_imported(module)
    }
    if not modules:
        return
    for name, module in modules.items():
        new += baseline.take(name, module, _inner, state.found)
    state.modules |= modules
    state.named |= {holder.name: holder for holder in new}
    state.watch.add([holder.thing for holder in new])
    for holder in [holder for holder in new if not isinstance(holder.thing, _TABLES)]:
        # A program, or its hook of imports, put these there. What was in their place is not known.
        names = [name for name, value in baseline.changeable(holder) if not _is_own(value)]
        names += [] if baseline.is_loaded_by_python(holder.thing) else [_LOADER]
        if names:
            holder.held |= dict.fromkeys(names, _UNKNOWN)
            _compare([holder])
        bases = holder.thing.__bases__ if isinstance(holder.thing, type) else ()
        if not all(_is_first_base(holder.thing, base) for base in bases):
            baseline.note(holder.thing, {"__bases__": _UNKNOWN})
            _compare(_changed())


def _inner(thing: Any, pairs: Pairs) -> Iterator[tuple[Any, str, Any]]:
    """Yield what in a module, class or object of the generators may change in place."""
    if isinstance(thing, _TABLES):
        return
    is_module = type(thing) is ModuleType
    # What a decorator calls stands in a cell, and has defaults as another function.
    named = thing.cell_contents if type(thing) is CellType else thing
    module = named.__name__ if is_module else named.__module__
    for key, value in pairs:
        kind = type(value)
        # Of six thousand functions few hold something that may change.
        if kind is FunctionType and not (value.__closure__ or value.__kwdefaults__):
            continue
        if kind is FunctionType or kind in _METHODS:
            function = value if kind is FunctionType else _function(value)
            for number, cell in enumerate(getattr(function, "__closure__", None) or ()):
                # A cell with a function is what a decorator of theirs calls. Other cells hold memos.
                if cell != _EMPTY and type(cell.cell_contents) is FunctionType:
                    yield key, f".<cell {number}>", cell
            defaults = getattr(function, "__kwdefaults__", None)
            if defaults and function.__globals__.get("__name__") == module:
                yield key, ".__kwdefaults__", defaults
        elif isinstance(value, type):
            if value.__module__ == module:
                yield key, "", value
        elif kind in _TABLES:
            # The tables of pyopencl are memos, and that of dtypes is in each key.
            if key[:2] != "__" and not module.startswith("pyopencl"):
                yield key, "", value
        elif is_module and _is_object(value):
            yield key, "", value


def _is_object(value: Any) -> bool:
    """Return True for an object of the generators that may hold something."""
    module = str(type(value).__module__)
    return is_generators(module) and module != _DISK and hasattr(value, "__dict__")


def _counts(holder: Holder, name: Any, now: Any) -> bool:
    """Return True if another value of a name may be a change by a program."""
    thing, before = holder.thing, holder.held.get(name, MISSING)
    kinds = type(before), type(now)
    if any(kind.__module__ == _DISK for kind in kinds):
        return False
    # A list may hold caches, which are registered in it.
    if isinstance(thing, list):
        is_nothing = not {*kinds}.isdisjoint(_TABLES)
    else:
        is_nothing = type(thing) is not dict and (name in _MEMOS or holder.is_nothing(name, now))
    if is_nothing or (
        kinds[0] is kinds[1] in TEXTS and TEXTS[kinds[0]](before) == TEXTS[kinds[0]](now)
    ):
        return False
    functions = _function(now), _function(before)
    below = [*map(unwrap, functions)]
    is_kcls = any(map(is_of_kcl, functions))
    return not is_kcls or (below[0] is not below[1] and not any(map(is_of_kcl, below)))


def _function(value: Any) -> Any:
    """Return the function behind a method, or in an object of functools; any other value as it is."""
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return value.__func__
    if type(value).__module__ == "functools":
        return getattr(value, "func", getattr(value, "__wrapped__", value))
    return value.fget if isinstance(value, property) else value


def _is_own(value: Any) -> bool:
    """Return True unless a value calls code of another package than the generators, what they require, and Python.

    A class, or an object that is called, is their own unless its class is the user's.
    """
    function = _function(value)
    if function is not value:
        return _is_own(function)
    if type(function) is FunctionType:
        # The program's own function may stand below one of kcl's, or of Python's.
        below = getattr(function, "__wrapped__", None)
        module = str(function.__globals__.get("__name__", ""))
        return _has_own_code(module, function.__code__.co_filename) and _is_own(below)
    kind = function if isinstance(function, type) else type(function)
    return baseline.is_theirs(str(kind.__module__))


@functools.cache
def _has_own_code(module: str, file: str) -> bool:
    # A generator may have made a function of a text: then it has no file.
    if not module or is_generators(module):
        loaded = getattr(sys.modules.get(module), "__file__", None)
        path = os.path.join(distributions.ARCHIVE, file)
        return file[:1] == "<" or loaded in (path, f"{path}c")
    return _is_of_owner(module)


def _is_first_base(kind: type, base: type) -> bool:
    """Return True unless a base is of a package that neither the generators nor the module of its class import."""
    names = getattr(sys.modules.get(str(kind.__module__)), "__dict__", {})
    module = str(base.__module__)
    package = sys.modules.get(module.partition(".")[0], base)
    return _is_of_owner(module) or any(
        value is base or value is package for value in names.values()
    )


@functools.cache
def _is_of_owner(module: str) -> bool:
    whose = distributions.owner(module)
    is_pythons = whose.kind in (distributions.PYTHON, distributions.KCL)
    return is_pythons or whose.name in _OWNERS or module.startswith("namedtuple_")


def refuse() -> None:
    """Raise UnknownInput if something inside the generators is changed now: no key holds what they generate then."""
    changes, state = now(), _state()
    if state.restored and state.thread != get_ident():
        # Another thread does without these changes. What this one makes has them, so it waits; not for long, as the other
        # one may wait for it.
        foreign.wait_for_loopy(_PATIENCE)
    if not baseline.is_told():
        raise UnknownInput("this Python tells of no change of a function")
    for holder, name in changes:
        raise UnknownInput(
            f"{holder}.{name} was changed in this process: nothing is stored before it is put back"
        )
    modules = state.modules.copy()
    present = map(sys.modules.get, modules, modules.values())
    # A module whose import failed is not there, and was not replaced.
    for name in compress(modules, map(is_not, present, modules.values())):
        raise UnknownInput(f"module {name} was replaced in this process: nothing is stored")


def now() -> Changes:
    """Return the changes in the generators as of now."""
    state = _state()
    loopy = sys.modules.get("loopy")
    if generators.is_under_way() or is_being_imported(loopy):
        # A thread is importing one of them. What changed before is known; the baseline is made as the import ends.
        return _changes()
    with state.lock:
        # A finder in front of kcl's, such as that of typeguard, lets an import end unheard.
        if not state.modules or (loopy is not None and "loopy" not in state.modules):
            attend()
        _compare(_changed())
        return _changes()


def _changes() -> Changes:
    """Return the changes found last."""
    return {
        (holder.name, name): value
        for holder, names in [*_state().differing.values()]
        for name, value in names.items()
    }


def _changed() -> list[Holder]:
    """List the holders that were changed since the last call, and each function of which a part was ever set."""
    state = _state()
    if not state.modules:
        return []
    places = state.watch.changed()
    order = [*state.found.values()] if places else []
    watched = [order[place] for place in places]
    return watched + [holder for holder in baseline.told() if is_generators(holder.name)]


def _compare(holders: list[Holder]) -> None:
    """Find the changes in some holders."""
    state = _state()
    for holder in holders:
        names = {
            name: value
            for name, value in holder.differing().items()
            if _counts(holder, name, value)
        }
        place = id(holder.thing), type(holder)
        if place in state.restored:
            # What is restored for a call is changed all the same.
            names = {**state.restored[place][1], **names}
        state.differing.pop(place, None)
        if names:
            state.differing[place] = holder, names


@contextmanager
def as_imported() -> Iterator[None]:
    """Let the generators be in a block as their imports left them, for a call that waited.

    The caller lets one thread at a time in. The block holds no lock: its call may wait for the import of another thread,
    which looks for changes as it ends. That thread finds the changes of before the block.
    """
    state = _state()
    if not now() or state.restored:
        yield
        return
    try:
        with state.lock:
            state.thread = get_ident()
            for place, (holder, names) in state.differing.items():
                thing, held = holder.thing, holder.held
                state.restored[place] = thing, names, holder.now()
                # An unknown value cannot be put back.
                _put(thing, [name for name in names if held.get(name) is not _UNKNOWN], held)
        yield
    finally:
        try:
            state.put_back()
        finally:
            # An interrupt may come as the changes are put back.
            state.put_back()


def _put(thing: Any, names: Iterable[Any], contents: dict[Any, Any]) -> None:
    """Let names have the values that they have in `contents`, or none."""
    if isinstance(thing, list):
        # A list is put back as a whole: its places move with each item.
        thing[:] = [contents[place] for place in sorted(contents)]
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
    """Return the function or class that the import of a generator gave a name in a holder; None for anything else."""
    state = _state()
    if "loopy" not in state.modules:
        attend()
    value = state.named[holder].held.get(name) if holder in state.named else None
    return None if value is _UNKNOWN or isinstance(value, functools.partial) else unwrap(value)


# A process that asks before it imports one of them through kcl's function.
generators.receive(note_end, note_begin)
