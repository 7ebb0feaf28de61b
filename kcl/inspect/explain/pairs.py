"""Pairs: which call of an earlier record is which call of a later one.

A call has a form and a meaning. The form is its function and its arguments without the targets of its references; the
meaning includes the calls that the references lead to. Calls of equal meaning are pairs. An alignment of the forms in
the order of the lists pairs most of the other calls. The calls that it leaves out are paired where their references
agree, and are moved calls where only their forms agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_CALL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\bcall ([1-9][0-9]*)\b""", re.DOTALL)
_PIECES = re.compile(r"\\n|\n|, ")
_LONG = 40  # characters: the pieces of a longer argument are compared one by one
_BAND = 16  # calls: an alignment is sought first among those that shift no call further
_WIDEST = 64  # calls: an alignment that shifts a call further is not sought, since its cost is quadratic
_CHANGED, _UNLIKE = 0.5, 1.4  # what a changed call costs, and what it costs more if nothing is shared
_ELSEWHERE = 0.01  # what calls of one form cost that refer to calls of other forms
_AKIN = 1.2  # the cost up to which calls without references are pairs anywhere in the lists
_FAR = float("inf")
_APART = 2.0  # the cost of a call that is gone and one that is inserted


class Call(NamedTuple):
    """One call of a record; `number` counts from 1, `place` is the file and the line of the user's code.

    The first `positional` arguments are passed by position.
    """

    number: int
    function: str
    place: str
    arguments: tuple[tuple[str, str], ...]
    positional: int = 0


class Graph:
    """The calls of one record; `references`, `forms`, `meanings` and the other lists are by the index of a call.

    The surroundings of a call are its form and the forms of the calls that it refers to. Equal forms, surroundings or
    meanings have equal numbers in all graphs that share `numbers`.
    """

    __slots__ = ("calls", "forms", "meanings", "pieces", "record", "references", "surroundings")

    def __init__(self, record: Mapping[str, Any], numbers: dict[object, int]) -> None:
        self.record = record
        self.calls = calls_of(record)
        self.references: list[tuple[int, ...]] = []
        self.forms: list[int] = []
        self.meanings: list[int] = []
        self.surroundings: list[int] = []
        self.pieces: list[frozenset[tuple[str, str]]] = []
        for call in self.calls:
            self._add(call, numbers)

    def _add(self, call: Call, numbers: dict[object, int]) -> None:
        own = [(name, text, referenced(text, call.number)) for name, text in call.arguments]
        blank = tuple((name, blanked(text, call.number) if found else text) for name, text, found in own)
        references = tuple(index for _name, _text, found in own for index in found)
        form = numbers.setdefault(("form", call.function, blank), len(numbers))
        around = tuple(self.forms[index] for index in references)
        targets = tuple(self.meanings[index] for index in references)
        self.references.append(references)
        self.forms.append(form)
        self.surroundings.append(numbers.setdefault(("surroundings", form, around), len(numbers)))
        self.meanings.append(numbers.setdefault(("meaning", form, targets), len(numbers)))
        self.pieces.append(frozenset(piece for name, text in blank for piece in pieces(name, text)))


class Match:
    """The pairs of two graphs; `pairs` and `moved` lead from an index in `after` to one in `before`."""

    __slots__ = ("after", "before", "moved", "pairs", "partners")

    def __init__(self, before: Graph, after: Graph) -> None:
        self.before, self.after = before, after
        self.pairs: dict[int, int] = {}
        self.moved: dict[int, int] = {}
        self.partners: dict[int, int] = {}

    def pair(self, old: int, new: int) -> None:
        """Make two calls a pair."""
        self.pairs[new] = old
        self.partners[old] = new

    def same(self, old: int, new: int) -> bool:
        """Tell whether two references lead to the same call."""
        meaning = self.before.meanings[old]
        return meaning == self.after.meanings[new] or (
            new in self.pairs and meaning == self.before.meanings[self.pairs[new]]
        )

    def agree(self, old: int, new: int) -> bool:
        """Tell whether all references of two calls lead to the same calls."""
        ours, theirs = self.before.references[old], self.after.references[new]
        return len(ours) == len(theirs) and all(map(self.same, ours, theirs))

    def follows(self, old: int, new: int) -> bool:
        """Tell whether two references differ only because calls between are gone, inserted or moved."""
        old = _spare(self.before, old, self.partners)
        new = _spare(self.after, new, self.pairs)
        if old in self.partners and new in self.pairs:
            return False
        ours = {self.before.meanings[index] for index in _bases(self.before, old, self.partners)}
        theirs = {self.before.meanings[self.pairs[index]] for index in _bases(self.after, new, self.pairs)}
        return not ours.isdisjoint(theirs) or not (ours or theirs)


def calls_of(record: Mapping[str, Any]) -> list[Call]:
    """Return the calls of a record; raise KeyError, TypeError, ValueError or AttributeError for anything else."""
    return [_call(number, call) for number, call in enumerate(record["calls"], 1)]


def _call(number: int, call: Mapping[str, Any]) -> Call:
    place, positional = str(call.get("place", "")), int(call.get("positional", 0))
    arguments = tuple((str(name), str(text)) for name, text in call["arguments"])
    return Call(number, str(call["function"]), place, arguments, positional)


def referenced(text: str, number: int) -> tuple[int, ...]:
    """Return the indices of the calls that an argument of call `number` refers to; quoted text refers to none."""
    if "call " not in text:
        return ()
    found = (int(match[1]) for match in _CALL.finditer(text) if match[1])
    return tuple(target - 1 for target in found if target < number)


def written(text: str, number: int, name: Callable[[int], str]) -> str:
    """Write an argument of call `number` with `name(index)` in the place of each reference."""

    def replaced(match: re.Match[str]) -> str:
        return name(int(match[1]) - 1) if match[1] and int(match[1]) < number else match[0]

    return _CALL.sub(replaced, text) if "call " in text else text


def blanked(text: str, number: int) -> str:
    """Write an argument of call `number` without the targets of its references."""
    return written(text, number, lambda _index: "call")


def pieces(name: str, text: str) -> Iterable[tuple[str, str]]:
    """Return an argument in the pieces that are compared: a long one by its lines and items."""
    return ((name, piece) for piece in (_PIECES.split(text) if len(text) > _LONG else (text,)))


def matched(before: Graph, after: Graph) -> Match:
    """Find the pairs of two graphs that share their numbers."""
    match = Match(before, after)
    _pair_equals(match)
    cost = _costs(before, after)
    old, new = _left(match)
    for one, other in aligned(len(old), len(new), lambda i, j: cost(old[i], new[j])):
        match.pair(old[one], new[other])
    _pair_elsewhere(match, cost)
    return match


def aligned(height: int, width: int, cost: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """Return the pairs of the cheapest alignment of two sequences, in order.

    `cost(i, j)` is the price of a pair, from 0 to 2. To leave out one item of one sequence costs 1.
    """
    shift = abs(height - width)
    total, steps = _table(height, width, cost, shift + _BAND)
    needed = int(total + shift) // 2  # an alignment that shifts an item further costs more than this one
    if needed > shift + _BAND:
        total, steps = _table(height, width, cost, min(needed, shift + _WIDEST))
    return _path(height, width, steps)


def _spare(graph: Graph, index: int, paired: Mapping[int, int]) -> int:
    """Return a call of the same meaning that is not paired, or the call itself where there is none."""
    if index not in paired:
        return index
    twins = (one for one, meaning in enumerate(graph.meanings) if meaning == graph.meanings[index])
    return next((one for one in twins if one not in paired), index)


def _bases(graph: Graph, start: int, paired: Mapping[int, int]) -> set[int]:
    """Return the nearest paired calls that a reference leads to, through calls that are not paired."""
    found, waiting, seen = set(), [start], {start}
    while waiting:
        index = waiting.pop()
        if index in paired:
            found.add(index)
            continue
        more = [target for target in graph.references[index] if target not in seen]
        seen.update(more)
        waiting += more
    return found


def _pair_equals(match: Match) -> None:
    """Pair the calls of equal meaning: first those at one distance from the beginning or the end, then in order."""
    before, after = match.before.meanings, match.after.meanings
    for shift in (0, len(before) - len(after)):
        for new, meaning in enumerate(after):
            old = new + shift
            free = new not in match.pairs and old not in match.partners
            if free and 0 <= old < len(before) and before[old] == meaning:
                match.pair(old, new)
    old_left, new_left = _left(match)
    places: dict[int, list[int]] = {}
    for old in reversed(old_left):
        places.setdefault(before[old], []).append(old)
    for new in new_left:
        if places.get(after[new]):
            match.pair(places[after[new]].pop(), new)


def _left(match: Match) -> tuple[list[int], list[int]]:
    """Return the calls that have no pair yet: those of the earlier record, those of the later one."""
    old = [index for index in range(len(match.before.calls)) if index not in match.partners]
    return old, [index for index in range(len(match.after.calls)) if index not in match.pairs]


def _costs(before: Graph, after: Graph) -> Callable[[int, int], float]:
    """Return the function that prices a pair of calls."""
    forms, other_forms, pieces, other_pieces = before.forms, after.forms, before.pieces, after.pieces
    around, other_around = before.surroundings, after.surroundings
    functions, other_functions = [call.function for call in before.calls], [call.function for call in after.calls]

    def cost(old: int, new: int) -> float:
        if forms[old] == other_forms[new]:
            return 0.0 if around[old] == other_around[new] else _ELSEWHERE
        if functions[old] != other_functions[new]:
            return _APART
        one, other = pieces[old], other_pieces[new]
        shared = 0 if one.isdisjoint(other) else len(one & other)
        return _CHANGED + _UNLIKE * (1.0 - 2 * shared / (len(one) + len(other) or 1))

    return cost


def _table(
    height: int, width: int, cost: Callable[[int, int], float], band: int
) -> tuple[float, Sequence[Sequence[int]]]:
    """Return the price of the cheapest alignment, and the last step to each cell: 0 a pair, 1 down, 2 right."""
    above = [float(column) if column <= band else _FAR for column in range(width + 1)]
    steps = [bytearray([2]) * (width + 1)]
    for line in range(1, height + 1):
        row, step = [_FAR] * (width + 1), bytearray([1]) * (width + 1)
        if line <= band:
            row[0] = float(line)
        for column in range(max(1, line - band), min(width, line + band) + 1):
            best, way = above[column] + 1.0, 1
            if row[column - 1] + 1.0 < best:
                best, way = row[column - 1] + 1.0, 2
            corner = above[column - 1]
            if corner < best:
                corner += cost(line - 1, column - 1)
                if corner < best:
                    best, way = corner, 0
            row[column], step[column] = best, way
        above = row
        steps.append(step)
    return above[width], steps


def _path(height: int, width: int, steps: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    found = []
    while height and width:
        step = steps[height][width]
        height -= step != 2
        width -= step != 1
        if step == 0:
            found.append((height, width))
    return found[::-1]


def _pair_elsewhere(match: Match, cost: Callable[[int, int], float]) -> None:
    """Pair calls that the alignment left out, or note them as moved."""
    old, new = _left(match)
    for index in new:
        fitting = [one for one in old if _settles(match, cost, one, index)]
        if fitting:
            _cost, nearest = min((cost(one, index), one) for one in fitting)
            match.pair(nearest, index)
            old = [one for one in old if one not in match.partners]
    for index in new:
        alike = [one for one in old if match.before.forms[one] == match.after.forms[index]]
        if index not in match.pairs and alike:
            match.moved[index] = alike[0]
            old.remove(alike[0])


def _settles(match: Match, cost: Callable[[int, int], float], old: int, new: int) -> bool:
    """Tell whether two calls are a pair wherever they stand: they are akin, and their references agree."""
    price = cost(old, new)
    return price <= (_AKIN if not match.after.references[new] else _APART - 0.01) and match.agree(old, new)
