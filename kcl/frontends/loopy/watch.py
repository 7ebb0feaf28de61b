"""The things among many that were changed since the last look: dictionaries, cells, lists, and objects.

CPython gives each change of a dictionary a number of its own; the address of its content stands for that of a cell.
Writes to the attributes of an object may bypass its dictionary, so objects are compared by content, as lists are. The
numbers are read at once. That takes 3 us for the 1,300 dictionaries and cells of loopy; a comparison of their contents
takes 1.5 ms, and 42 kernels ask for it 400 times. A probe shows whether this Python has the numbers, and in which place.
If it has not, contents are compared.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import operator
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from types import CellType, GetSetDescriptorType, ModuleType
from typing import Any

from kcl.frontends.loopy.callables.classes import dictionaries, names_of, own, slots

# The place of the pointer in a cell, which counts as its number.
_CONTENT = CellType.__basicsize__ - 8
_WORD = 8
_names_of_module: Any = vars(ModuleType)["__dict__"].__get__
# Changes of a dictionary by all its methods.
_CHANGES = (
    "table['a'] = True",
    "table['c'] = 3",
    "del table['b']",
    "table.pop('c')",
    "table.setdefault('d', 4)",
    "table.update({5: 6})",
    "table.popitem()",
    "table.clear()",
)


# What something holds, by name or place.
Contents = dict[Any, Any]


def items(thing: Any) -> Contents:
    """Return what something holds, by name or place."""
    kind: Any = type(thing)
    if kind is CellType:
        return {"cell_contents": thing.cell_contents}
    if kind is dict or issubclass(kind, (ModuleType, type)):
        names: Contents = (thing if kind is dict else _names(thing)).copy()
        return names
    contents = own(thing)
    # The methods of the builtin class, since a class of the program may have others.
    if issubclass(kind, dict):
        contents |= dict.items(thing)
    elif issubclass(kind, (list, set, deque)):
        contents |= dict.fromkeys(thing) if issubclass(kind, set) else enumerate(thing)
    return contents


def _names(thing: Any) -> Any:
    """Return the names in a module or class, whatever its class has under `__dict__`."""
    return (names_of if issubclass(type(thing), type) else _names_of_module)(thing)


def is_same(before: list[Any], now: list[Any]) -> bool:
    """Return True if two lists have the same items, and not only equal ones."""
    return len(before) == len(now) and all(map(operator.is_, before, now))


class _Contents:
    """The class, the names and the values of something, as they are at each iteration."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        kind: Any = type(thing)
        is_table = issubclass(kind, (dict, list, set, deque))
        # Python's own member gives the dictionary, which has all the content and needs no copy.
        members = dictionaries(kind)
        is_open = bool(members) and type(members[0]) is GetSetDescriptorType
        self._is_plain = is_open and not (is_table or slots(kind))

    def __iter__(self) -> Iterator[Any]:
        thing = self._thing
        try:
            # No code of the class runs, as `vars` may run it.
            names: Any = self._is_plain and object.__getattribute__(thing, "__dict__")
        except AttributeError:
            names = False
        names = items(thing) if names is False else names
        return chain((type(thing),), names, names.values())


class Watch:
    """Things that are looked at for changes. The caller lets one thread at a time use it."""

    def __init__(self) -> None:
        # The things are kept, since their addresses are read.
        self._things = list[Any]()
        # The position of a thing with a number, by the address of that.
        self._places: dict[int, list[int]] = {}
        # The positions of the other things, and what yields their contents.
        self._others = set[int]()
        self._contents = list[Iterable[Any]]()
        # The memory from the first number to the last one, and the offsets of the numbers in it.
        self._memory: Any = None
        self._offsets: Any = None
        self._last: tuple[Any, list[Any]] = ([], [])

    def add(self, things: list[Any]) -> None:
        """Look at more things, from now on. What changed of the others since their last look is told yet."""
        number, contents = _number(), list[Iterable[Any]]()
        insides = {dict: number, CellType: number and _CONTENT}
        for place, thing in enumerate(things, len(self._things)):
            target = content_of(thing) if issubclass(type(thing), (ModuleType, type)) else thing
            inside = insides.get(type(target))
            if inside:
                self._places.setdefault(id(target) + inside, []).append(place)
            else:
                self._others.add(place)
                # C code alone reads lists, which most of them are; the list itself ends the content before.
                contents += [(target,), target] if type(target) is list else [_Contents(target)]
        self._contents += contents
        self._things += things
        numbers, values = self._last
        if self._places:
            import numpy as np

            addresses = np.array([*self._places])
            first, last = int(addresses.min()), int(addresses.max())
            # The array only names the memory: the pages between the numbers are not read.
            memory = (ctypes.c_int64 * ((last - first) // _WORD + 1)).from_address(first)
            self._memory = np.frombuffer(memory, np.int64)  # type: ignore[call-overload]
            self._offsets = (addresses - first) // _WORD
            numbers = np.append(
                np.array(numbers, np.int64), self._memory[self._offsets[len(numbers) :]]
            )
        self._last = numbers, [*values, *chain.from_iterable(contents)]

    def changed(self) -> set[int]:
        """Return the positions of the things that were changed since the last call."""
        numbers_before, values_before = self._last
        numbers = self._memory[self._offsets] if self._places else []
        values = [*chain.from_iterable(self._contents)]
        self._last = numbers, values
        changed = set[int]()
        if self._places and len(differ := (numbers != numbers_before).nonzero()[0]):
            places = [*self._places.values()]
            changed = {place for index in differ for place in places[index]}
        return changed if is_same(values, values_before) else changed.union(self._others)


def content_of(thing: Any) -> dict[str, Any]:
    """Return the dictionary behind the attributes of a module or a class."""
    names = _names(thing)
    # That of a class is a proxy. The collector names the dictionary that it refers to.
    return names if isinstance(names, dict) else gc.get_referents(names)[0]


@functools.cache
def _number() -> int | None:
    """Return the place of the number in a dictionary; None if it is elsewhere."""
    if sys.implementation.name != "cpython":
        return None
    if sys.version_info >= (3, 13):
        # This import takes 1.5 ms, and older Pythons do without it.
        import sysconfig

        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            return None
    # A dictionary ends with the number, the address of its keys, and that of its values.
    place = dict.__basicsize__ - 3 * _WORD
    seen = list[int]()

    def look(table: Any) -> None:
        seen.append(ctypes.c_int64.from_address(id(table) + place).value)

    holders: list[Any] = [ModuleType("probe"), type("Probe", (), {})]
    for holder in holders:
        # So often that Python takes its faster way to set an attribute, which may write no number.
        for value in map(str, range(64)):
            holder.name = value
            look(content_of(holder))
    table = {"a": 1, "b": 2}
    for change in _CHANGES:
        exec(change, {"table": table})
        look(table)
    cell = CellType(place)
    is_known = ctypes.c_int64.from_address(id(cell) + _CONTENT).value == id(place)
    # The number is there if each change gave another one.
    return place if is_known and len({*seen}) == len(seen) else None
