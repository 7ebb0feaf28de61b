"""The things among many that were changed since the last look: dictionaries, lists and functions.

CPython gives each change of a dictionary a number of its own, and a function holds its code and its defaults. Writes to
the attributes of an object may bypass its dictionary, so objects are compared by content, as lists are. The other
words of memory are read at once. That takes 0.04 ms for the 5,000 things of loopy; a comparison of their contents takes
1.5 ms, and 42 kernels ask for it 300 times. A probe shows whether this Python has the words in these places. If it has
not, contents are compared.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import operator
import sys
import sysconfig
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

PARTS = ("__code__", "__defaults__", "__kwdefaults__")  # of a function: side by side in memory
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


class Watch:
    """Things that are looked at for changes. The caller lets one thread at a time use it."""

    def __init__(self) -> None:
        self._things: list[Any] = []
        self._addresses: list[int] = []  # of their words
        self._lists: dict[int, list[Any]] = {}  # those among them, by position
        self._objects: dict[
            int, Any
        ] = {}  # those that are neither dictionaries, lists nor functions
        self._owners: list[int] = []  # positions: of the thing that has a word
        self._memory: Any = None  # from the first word to the last one
        self._places: Any = None  # of the words in it
        self._last: tuple[Any, list[Any]] = ([], [])

    def add(self, things: list[Any]) -> None:
        """Look at more things, from now on; a change of the others that was not told counts no more."""
        layout, known = _layout(), len(self._things)
        self._things += things
        for place, one in enumerate(things, known):
            if isinstance(one, list):
                self._lists[place] = one
            elif not isinstance(one, (dict, FunctionType)):
                self._objects[place] = one
            elif layout is not None:
                words = layout[isinstance(one, FunctionType)]
                self._addresses += [id(one) + word for word in words]
                self._owners += [place] * len(words)
        if self._addresses:
            import numpy as np

            addresses = np.array(self._addresses)
            first, last = int(addresses.min()), int(addresses.max())
            # the pages between the words are not read
            memory = (ctypes.c_int64 * ((last - first) // _WORD + 1)).from_address(first)
            self._memory = np.frombuffer(memory, np.int64)  # type: ignore[call-overload]
            self._places = (addresses - first) // _WORD
        self._last = self._read()

    def _read(self) -> tuple[Any, list[Any]]:
        """Return the words of all things, and the items of lists; names and contents where there are no words."""
        values = [item for one in self._lists.values() for item in (one, *one)]
        for one in self._objects.values():
            names = vars(one).copy()
            values += [one, type(one), *names, *names.values()]
        if self._memory is not None:
            return self._memory[self._places], values
        dicts = [one.copy() for one in self._things if isinstance(one, dict)]
        functions = [one for one in self._things if isinstance(one, FunctionType)]
        values += chain.from_iterable(map(dict.values, dicts))
        values += [getattr(one, part) for part in PARTS for one in functions]
        return [*map(len, dicts), *chain.from_iterable(dicts)], values

    def changed(self) -> set[int]:
        """Return the positions of the things that were changed since the last call."""
        before, self._last = self._last, self._read()
        (words, values), (words_before, values_before) = self._last, before
        same = len(values) == len(values_before) and all(map(operator.is_, values, values_before))
        if self._memory is None:
            return set() if same and words == words_before else {*range(len(self._things))}
        changed = {self._owners[place] for place in (words != words_before).nonzero()[0]}
        return changed if same else changed.union(self._lists, self._objects)


def content_of(thing: Any) -> dict[str, Any]:
    """Return the dictionary behind the attributes of a module or a class."""
    names: Any = vars(thing)
    return names if isinstance(names, dict) else gc.get_referents(names)[0]


@functools.cache
def _layout() -> tuple[list[int], list[int]] | None:
    """Return the places of the words in a dictionary and in a function; None if they are elsewhere."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None

    def word(thing: Any, place: int) -> int:
        return ctypes.c_int64.from_address(id(thing) + place).value

    def probe(first: Any = (), *, second: Any = 1) -> None: ...

    number = dict.__basicsize__ - 3 * _WORD
    codes = [
        place
        for place in range(2 * _WORD, FunctionType.__basicsize__ - 2 * _WORD, _WORD)
        if [word(probe, place + _WORD * part) for part in range(len(PARTS))]
        == [id(getattr(probe, part)) for part in PARTS]
    ]
    holders: list[Any] = [ModuleType("probe"), type("Probe", (), {})]
    seen = list[int]()
    for holder in holders:
        for value in map(str, range(64)):  # so often that Python has a faster way to do it
            holder.name = value
            seen.append(word(content_of(holder), number))
    table = {"a": 1, "b": 2}
    for change in _CHANGES:
        exec(change, {"table": table})
        seen.append(word(table, number))
    if not codes or len({*seen}) != len(seen):
        return None
    return [number], [codes[0] + part * _WORD for part in range(len(PARTS))]
