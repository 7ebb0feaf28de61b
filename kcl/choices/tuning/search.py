"""Searches: which choices are measured next. A search needs no library, and `search=` takes any object of this form.

ask() -> list of choices        measured together; an empty list ends the search
tell(choice, ratio)             time / time of the default; None if the choice failed
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kcl.choices.tuning.space import Choice, Space, describe

WHOLE = 1024  # choices of which level 2 tries all
# Of a larger space: choices that are tried, and attempts to find valid ones.
DRAWN, _DRAWS = 256, 12_800
# Level 1 tries at least so many, since a quarter of a small space is next to nothing.
_FEWEST = 8
# This share of the choices of level 1 lies far apart. The others follow what these tell.
_SPREAD = 0.35
_AT_ONCE = 4  # choices that are built and raced together


def of_level(
    level: int,
    space: Space,
    given: Choice,
    sizes: Mapping[str, int],
    start: Choice,
) -> tuple[Interpolation, int]:
    """Return the search of a level from the choice `start`, and the number of valid choices (at most 1,025).

    Level 0 asks for nothing, 1 for some choices that lie far apart, then for those that look fastest. Level 2 tries all
    choices; of a large space random ones, then those that look fastest. Raises ValueError for another level.
    """
    if level not in (0, 1, 2):
        raise ValueError(
            f"level {level!r} of tuning: write 0 (the defaults), 1 (a short search) or 2 (a long one)"
        )
    lists = {name: values for name, values in space.lists.items() if name not in given}
    # One choice more than the bound is enough to see that the space is larger.
    valid = list(itertools.islice(space.choices(given, sizes), WHOLE + 1))
    # With a fixed seed a second tuning tries the same choices.
    is_whole, rng, pool = len(valid) <= WHOLE, random.Random(0), valid
    if not is_whole:
        drawn = [
            {name: rng.choice(values) for name, values in lists.items()} for _ in range(_DRAWS)
        ]
        pool = [choice for choice in drawn if not space.refusal({**given, **choice}, sizes)]
        # A choice that is drawn twice counts once.
        pool = [*{describe(choice): choice for choice in pool}.values()]
    search, steps = Interpolation(lists, pool, start), 2 * sum(map(len, lists.values()))
    if level == 1:
        search.most = min(steps, max(_FEWEST, len(valid) // 4))
        search.first = search.spread(round(_SPREAD * search.most))
    elif level == 2 and is_whole:
        # In random order, so that a search that is cut short has seen all corners.
        search.first = rng.sample(valid, len(valid))
    elif level == 2:
        search.first, search.most, search.power = pool[:DRAWN], DRAWN + steps, 6
    return search, len(valid)


class Interpolation:
    """The choices in `first`, then those of a pool that look fastest, a few at a time; at most `most` in all.

    What a choice is expected to take is a mean over the measured ones, weighted by the inverse of a power of their
    distance (Shepard's interpolation): the higher it is, the less do distant ones say. The values of a parameter are
    evenly spaced from 0 to 1 if they are numbers; other values are equally far from each other. A choice that failed
    counts as the slowest.
    """

    def __init__(
        self, lists: Mapping[str, tuple[Any, ...]], pool: Sequence[Choice], start: Choice
    ) -> None:
        self.first: list[Choice] = []
        self.most, self.power = 0, 2
        self._pool = {describe(choice): choice for choice in pool}
        self._points = {describe(choice): _point(lists, choice) for choice in [*pool, start]}
        self._times: dict[str, float | None] = {describe(start): 0.0}
        self._pool.pop(describe(start), None)

    def spread(self, count: int) -> list[Choice]:
        """Return choices of the pool, each as far as possible from the start and from those before it."""
        names, chosen = list(self._pool), list(self._times)
        while names and len(chosen) <= count:
            chosen.append(names.pop(int(np.argmax(self._squares(names, chosen).min(axis=1)))))
        # The start comes first, and is no choice of its own.
        return [self._pool[name] for name in chosen[1:]]

    def ask(self) -> list[Choice]:
        """Return the first choices, then the untried ones that look fastest."""
        choices, self.first = self.first, []
        left = min(_AT_ONCE, self.most + 1 - len(self._times))
        if choices or left <= 0 or not self._pool:
            return choices
        slowest = max(time for time in self._times.values() if time is not None)
        times = [slowest if time is None else time for time in self._times.values()]
        names = list(self._pool)
        # A default may lie where a choice does, and no distance may be zero.
        weights = (self._squares(names, list(self._times)) + 1e-9) ** (-self.power / 2)
        order = np.argsort(weights @ times / weights.sum(axis=1), kind="stable")
        return [self._pool[names[place]] for place in order[:left]]

    def tell(self, choice: Choice, ratio: float | None) -> None:
        """Keep what a choice takes."""
        self._pool.pop(describe(choice), None)
        self._times[describe(choice)] = math.log(ratio) if ratio else None

    def _squares(self, names: list[str], others: list[str]) -> np.ndarray[Any, Any]:
        """Return the square of the distance from each to each, as an array of shape (names, others)."""
        mine, theirs = ([self._points[name] for name in some] for some in (names, others))
        axes = zip(np.transpose(mine), np.transpose(theirs), strict=True)
        # One axis after the other takes less memory than all at once.
        return np.asarray(sum(np.subtract.outer(*axis) ** 2 for axis in axes))


def _point(lists: Mapping[str, tuple[Any, ...]], choice: Choice) -> list[float]:
    """Return where a choice lies: one axis for a parameter of numbers, an axis a value for any other."""
    point = list[float]()
    for name, values in lists.items():
        value = choice[name]
        # Types count: True is no number here, and 1 beside 1.0 is no axis of numbers.
        is_axis = {type(item) for item in (*values, value)} <= {int, float}
        if is_axis and len({*values}) == len(values):
            point.append(bisect.bisect_left(sorted(values), value) / max(1, len(values) - 1))
        else:
            point += [0.5 * (repr(other) == repr(value)) for other in values]
    return point
