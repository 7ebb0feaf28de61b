"""Pairs: match the calls of an earlier record with the calls of a later one.

A call has a form and a meaning. The form is its function and its arguments without the targets of its references; the
meaning includes the calls that the references lead to. Calls of equal meaning are pairs. Of the other calls the most
alike ones are paired first, in the order of the lists. The calls that are left are moved calls where their forms agree.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence

from kcl.inspect.explain.record import ParsedRecord, RecordedCall, blanked, pieces, referenced

_WIDEST = 64  # calls: no pair shifts a call further than this and the difference in length, since each pair is priced
_CHANGED, _UNLIKE = 0.5, 1.4  # the price of a changed call, and the extra price if nothing is shared
_APART = 2.0  # the cost of a call that is gone and one that is inserted


class Graph:
    """The calls of one record; `references`, `forms`, `meanings` and `pieces` are by the index of a call.

    Equal forms or meanings have equal numbers in all graphs that share `numbers`.
    """

    __slots__ = ("calls", "forms", "meanings", "pieces", "record", "references")

    def __init__(self, record: ParsedRecord, numbers: dict[object, int]) -> None:
        self.record = record
        self.calls = record.calls
        self.references: list[tuple[int, ...]] = []
        self.forms: list[int] = []
        self.meanings: list[int] = []
        self.pieces: list[frozenset[tuple[str, str]]] = []
        for call in self.calls:
            self._add(call, numbers)

    def _add(self, call: RecordedCall, numbers: dict[object, int]) -> None:
        own = [(name, text, referenced(text, call.number)) for name, text in call.arguments]
        blank = tuple((name, blanked(text, call.number) if found else text) for name, text, found in own)
        references = tuple(index for _name, _text, found in own for index in found)
        form = numbers.setdefault(("form", call.function, blank), len(numbers))
        targets = tuple(self.meanings[index] for index in references)
        self.references.append(references)
        self.forms.append(form)
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

    def follows(self, old: int, new: int) -> bool:
        """Tell whether two references differ only because calls between are gone, inserted or moved."""
        if old in self.partners and new in self.pairs:
            return False
        ours = {self.before.meanings[index] for index in _bases(self.before, old, self.partners)}
        theirs = {self.before.meanings[self.pairs[index]] for index in _bases(self.after, new, self.pairs)}
        return not ours.isdisjoint(theirs) or not (ours or theirs)


def matched(before: Graph, after: Graph) -> Match:
    """Find the pairs of two graphs that share their numbers."""
    match = Match(before, after)
    _pair_equals(match)
    cost = _costs(before, after)
    old, new = _left(match)
    for one, other in aligned(len(old), len(new), lambda i, j: cost(old[i], new[j])):
        match.pair(old[one], new[other])
    match.moved = _equals(match, before.forms, after.forms)
    return match


def aligned(height: int, width: int, cost: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """Return pairs of the items of two sequences in order: the cheapest first, and none that crosses a cheaper one.

    `cost(i, j)` is the price of a pair; a pair that costs `_APART` is none. Among equal prices, the pairs at the same
    distance from the beginning, or from the end, of both sequences come first.
    """
    reach, longer = abs(height - width) + _WIDEST, height - width
    near = ((i, j) for i in range(height) for j in range(max(0, i - reach), min(width, i + reach + 1)))
    priced = [(price, min(abs(i - j), abs(i - j - longer)), i, j) for i, j in near if (price := cost(i, j)) < _APART]
    pairs = [(-1, -1), (height, width)]
    for _price, _distance, i, j in sorted(priced):
        place = bisect(pairs, (i, j))
        (one, other), (next_one, next_other) = pairs[place - 1 : place + 1]
        if one < i < next_one and other < j < next_other:
            pairs.insert(place, (i, j))
    return pairs[1:-1]


def _bases(graph: Graph, start: int, paired: Mapping[int, int]) -> set[int]:
    """Return the nearest paired calls that a reference leads to, through calls without a pair."""
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
    for new, old in _equals(match, before, after).items():
        match.pair(old, new)


def _equals(match: Match, before: Sequence[int], after: Sequence[int]) -> dict[int, int]:
    """Return the pairs of equal numbers among the calls without a pair in two lists, the later index first."""
    old, new = _left(match)
    found = {}
    for index in new:
        alike = next((one for one in old if before[one] == after[index]), None)
        if alike is not None:
            found[index] = alike
            old.remove(alike)
    return found


def _left(match: Match) -> tuple[list[int], list[int]]:
    """Return the calls that have no pair yet: those of the earlier record, those of the later one."""
    old = [index for index in range(len(match.before.calls)) if index not in match.partners]
    return old, [index for index in range(len(match.after.calls)) if index not in match.pairs]


def _costs(before: Graph, after: Graph) -> Callable[[int, int], float]:
    """Return the function that prices a pair of calls."""
    forms, other_forms, pieces, other_pieces = before.forms, after.forms, before.pieces, after.pieces
    functions, other_functions = [call.function for call in before.calls], [call.function for call in after.calls]

    def cost(old: int, new: int) -> float:
        if forms[old] == other_forms[new]:
            return 0.0
        if functions[old] != other_functions[new]:
            return _APART
        one, other = pieces[old], other_pieces[new]
        shared = 0 if one.isdisjoint(other) else len(one & other)
        return _CHANGED + _UNLIKE * (1.0 - 2 * shared / (len(one) + len(other) or 1))

    return cost
