"""`Watch`: finds out quickly which of many dictionaries, cells, lists and objects have changed.

CPython gives a dictionary a new version number with each change; for a cell the address of its content serves. These
numbers are read all at once, which takes 3 us for the 1,300 dictionaries and cells of loopy. Comparing their contents
would take 1.5 ms, and 42 kernels need that 400 times. Setting an attribute may bypass an object's dictionary, so objects
are compared by content, and so are lists. A probe tests whether this Python has the numbers, and where. If it has not,
all contents are compared.
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

from kcl.frontends.loopy.callables.classes import own, slots

# The offset of a cell's pointer to its content.
_CONTENT = CellType.__basicsize__ - 8
_WORD = 8
# Statements for the probe: each changes a dictionary by another method.
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


def items(thing: Any) -> dict[Any, Any]:
    """Return the content of a module, class, object, table or cell, by name, key or index."""
    kind: Any = type(thing)
    if kind is CellType:
        return {"cell_contents": thing.cell_contents}
    if kind is dict or issubclass(kind, (ModuleType, type)):
        names: dict[Any, Any] = (thing if kind is dict else vars(thing)).copy()
        return names
    contents = own(thing)
    # Methods of the builtin class, since the program's class may override them.
    if issubclass(kind, dict):
        contents |= dict.items(thing)
    elif issubclass(kind, (list, set, deque)):
        contents |= dict.fromkeys(thing) if issubclass(kind, set) else enumerate(thing)
    return contents


def is_same(before: list[Any], now: list[Any]) -> bool:
    """Return True if two lists have identical (not only equal) items."""
    return len(before) == len(now) and all(map(operator.is_, before, now))


class _Contents:
    """An iterable over the present class, names and values of an object."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        kind: Any = type(thing)
        is_table = issubclass(kind, (dict, list, set, deque))
        # If the dictionary is a plain one and has all content, it can be read without a copy.
        members = [vars(base)["__dict__"] for base in kind.__mro__ if "__dict__" in vars(base)]
        is_open = bool(members) and type(members[0]) is GetSetDescriptorType
        self._is_plain = is_open and not (is_table or slots(kind))

    def __iter__(self) -> Iterator[Any]:
        thing = self._thing
        try:
            # Unlike `vars`, this runs no code of the class.
            names: Any = self._is_plain and object.__getattribute__(thing, "__dict__")
        except AttributeError:
            names = False
        names = items(thing) if names is False else names
        return chain((type(thing),), names, names.values())


class Watch:
    """Things that are watched for changes. The caller lets one thread at a time use it."""

    def __init__(self) -> None:
        # Kept alive, since memory at their addresses is read.
        self._things = list[Any]()
        # Address of a version number -> the positions of things that it belongs to.
        self._places: dict[int, list[int]] = {}
        # The positions of the other things, and iterables over their contents.
        self._others = set[int]()
        self._contents = list[Iterable[Any]]()
        # An array over the memory from the first number to the last, and the indices of the numbers in it.
        self._memory: Any = None
        self._offsets: Any = None
        self._last: tuple[Any, list[Any]] = ([], [])

    def add(self, things: list[Any]) -> None:
        """Watch more things from now on. Changes of the others since the last call of `changed` are not lost."""
        number, contents = _number(), list[Iterable[Any]]()
        insides = {dict: number, CellType: number and _CONTENT}
        for place, thing in enumerate(things, len(self._things)):
            target = content_of(thing) if issubclass(type(thing), (ModuleType, type)) else thing
            inside = insides.get(type(target))
            if inside:
                self._places.setdefault(id(target) + inside, []).append(place)
            else:
                self._others.add(place)
                # Most are lists, which are iterated in C; the list itself comes first, as a separator.
                contents += [(target,), target] if type(target) is list else [_Contents(target)]
        self._contents += contents
        self._things += things
        numbers, values = self._last
        if self._places:
            import numpy as np

            addresses = np.array([*self._places])
            first, last = int(addresses.min()), int(addresses.max())
            # Nothing is copied: the array only spans the memory, and pages between the numbers are not touched.
            memory = (ctypes.c_int64 * ((last - first) // _WORD + 1)).from_address(first)
            self._memory = np.frombuffer(memory, np.int64)  # type: ignore[call-overload]
            self._offsets = (addresses - first) // _WORD
            numbers = np.append(
                np.array(numbers, np.int64), self._memory[self._offsets[len(numbers) :]]
            )
        self._last = numbers, [*values, *chain.from_iterable(contents)]

    def changed(self) -> set[int]:
        """Return the positions of the things that have changed since the last call."""
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
    """Return the dictionary of a module or a class itself, not a copy or a proxy."""
    names: Any = vars(thing)
    # `vars` of a class is a proxy: the garbage collector knows the dictionary that it refers to.
    return names if isinstance(names, dict) else gc.get_referents(names)[0]


@functools.cache
def _number() -> int | None:
    """Return the offset of the version number in a dictionary object; None if this Python has none there."""
    if sys.implementation.name != "cpython":
        return None
    if sys.version_info >= (3, 13):
        # Imported only here, since it takes 1.5 ms.
        import sysconfig

        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            return None
    # A dictionary object ends with the number, the pointer to its keys, and the pointer to its values.
    place = dict.__basicsize__ - 3 * _WORD
    seen = list[int]()

    def look(table: Any) -> None:
        seen.append(ctypes.c_int64.from_address(id(table) + place).value)

    holders: list[Any] = [ModuleType("probe"), type("Probe", (), {})]
    for holder in holders:
        # So often that Python specialises the assignment: the specialised one must change the number too.
        for value in map(str, range(64)):
            holder.name = value
            look(content_of(holder))
    table = {"a": 1, "b": 2}
    for change in _CHANGES:
        exec(change, {"table": table})
        look(table)
    cell = CellType(place)
    is_known = ctypes.c_int64.from_address(id(cell) + _CONTENT).value == id(place)
    # The offset is right if each change gave a new number.
    return place if is_known and len({*seen}) == len(seen) else None
