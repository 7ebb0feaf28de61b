"""The things among many that were changed since the last look: dictionaries and lists.

CPython gives each change of a dictionary a number of its own. Writes to the attributes of an object may bypass its
dictionary, so objects are compared by content, as lists are. The numbers are read at once. That takes 0.1 ms for the
950 dictionaries of loopy; a comparison of their contents takes 1.5 ms, and 42 kernels ask for it 400 times. A probe
shows whether this Python has the numbers, and in which place. If it has not, contents are compared.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import operator
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from types import CellType, ModuleType
from typing import Any

_WORD = 8
# of a dictionary, by all its methods
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


def _attributes(thing: Any) -> Iterable[Any]:
    names = vars(thing).copy()
    return type(thing), *names, *names.values()


class Watch:
    """Things that are looked at for changes. The caller lets one thread at a time use it.

    `parts` lists what a thing holds that is neither a dictionary nor a list.
    """

    def __init__(self, parts: Callable[[Any], Iterable[Any]] = _attributes) -> None:
        self._parts = parts
        self._size = 0
        self._dicts: dict[int, dict[Any, Any]] = {}  # by position, as the others
        self._lists: dict[int, list[Any]] = {}
        self._objects: dict[int, Any] = {}
        self._cells: dict[int, CellType] = {}
        self._memory: Any = None  # from the first number of a dictionary to the last one
        self._places: Any = None  # of the numbers in it
        self._last: tuple[Any, list[Any]] = ([], [])

    def add(self, things: list[Any]) -> None:
        """Look at more things, from now on; a change of the others that was not told counts no more."""
        for place, one in enumerate(things, self._size):
            is_dict, is_list = isinstance(one, dict), isinstance(one, list)
            others = self._cells if type(one) is CellType else self._objects
            (self._dicts if is_dict else self._lists if is_list else others)[place] = one
        self._size += len(things)
        number = _number()
        if number is not None and self._dicts:
            import numpy as np

            addresses = np.array([*map(id, self._dicts.values())]) + number
            first, last = int(addresses.min()), int(addresses.max())
            # the pages between the numbers are not read
            memory = (ctypes.c_int64 * ((last - first) // _WORD + 1)).from_address(first)
            self._memory = np.frombuffer(memory, np.int64)  # type: ignore[call-overload]
            self._places = (addresses - first) // _WORD
        self._last = self._read()

    def _read(self) -> tuple[Any, list[Any]]:
        """Return the numbers of dictionaries, and the items of lists; names and contents where there are no numbers."""
        values = [item for one in self._lists.values() for item in (one, *one)]
        values += [one.cell_contents for one in self._cells.values()]
        values += chain.from_iterable(map(self._parts, self._objects.values()))
        if self._memory is not None:
            return self._memory[self._places], values
        dicts = [one.copy() for one in self._dicts.values()]
        values += chain.from_iterable(map(dict.values, dicts))
        return [*map(len, dicts), *chain.from_iterable(dicts)], values

    def changed(self) -> set[int]:
        """Return the positions of the things that were changed since the last call."""
        before, self._last = self._last, self._read()
        (numbers, values), (numbers_before, values_before) = self._last, before
        same = len(values) == len(values_before) and all(map(operator.is_, values, values_before))
        if self._memory is None:
            return set() if same and numbers == numbers_before else {*range(self._size)}
        differ = (numbers != numbers_before).nonzero()[0]
        positions = [*self._dicts] if len(differ) else []
        changed = {positions[one] for one in differ}
        return changed if same else changed.union(self._lists, self._objects, self._cells)


def content_of(thing: Any) -> dict[str, Any]:
    """Return the dictionary behind the attributes of a module or a class."""
    names: Any = vars(thing)
    return names if isinstance(names, dict) else gc.get_referents(names)[0]


@functools.cache
def _number() -> int | None:
    """Return the place of the number in a dictionary; None if it is elsewhere."""
    if sys.implementation.name != "cpython":
        return None
    if sys.version_info >= (3, 13):
        import sysconfig  # takes 1.5 ms

        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            return None
    place = dict.__basicsize__ - 3 * _WORD
    seen = list[int]()

    def look(table: Any) -> None:
        seen.append(ctypes.c_int64.from_address(id(table) + place).value)

    holders: list[Any] = [ModuleType("probe"), type("Probe", (), {})]
    for holder in holders:
        for value in map(str, range(64)):  # so often that Python has a faster way to do it
            holder.name = value
            look(content_of(holder))
    table = {"a": 1, "b": 2}
    for change in _CHANGES:
        exec(change, {"table": table})
        look(table)
    return place if len({*seen}) == len(seen) else None
