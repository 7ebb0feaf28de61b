"""Searches decide which choices are measured next. `Kernel.tune(search=...)` takes any object with these methods:

ask() -> list of choices        to be measured together; an empty list ends the search
tell(choice, ratio)             its time / time of the default; None if the choice failed
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

WHOLE = 1024  # the most choices of which level 2 tries all
# For a larger space: random choices that are tried, and random draws to find valid ones.
DRAWN, _DRAWS = 256, 12_800
# The choices that level 1 tries at least, since a quarter of a small space would be too few.
_FEWEST = 8
# The share of the choices of level 1 that are chosen far apart; the others depend on their times.
_SPREAD = 0.35
_AT_ONCE = 4  # choices that are built and raced together


def of_level(
    level: int,
    space: Space,
    given: Mapping[str, Any],
    sizes: Mapping[str, int],
    start: Choice,
) -> tuple[Interpolation, int]:
    """Return the search of a level, starting from the choice `start`, and the number of valid choices (at most 1,025).

    Level 0 tries nothing. Level 1 tries some choices far apart, then those that look fastest. Level 2 tries all choices; in
    a large space random ones, then those that look fastest. Raises ValueError for another level.
    """
    if level not in (0, 1, 2):
        raise ValueError(
            f"level {level!r} of tuning: write 0 (the defaults), 1 (a short search) or 2 (a long one)"
        )
    lists = {name: values for name, values in space.lists.items() if name not in given}
    # One choice more than the bound shows that the space is larger.
    valid = list(itertools.islice(space.choices(given, sizes), WHOLE + 1))
    # A fixed seed, so that a second tuning tries the same choices.
    is_whole, rng, pool = len(valid) <= WHOLE, random.Random(0), valid
    if not is_whole:
        drawn = [
            {name: rng.choice(values) for name, values in lists.items()} for _ in range(_DRAWS)
        ]
        pool = [choice for choice in drawn if not space.refusal({**given, **choice}, sizes)]
        # Duplicates are removed.
        pool = [*{describe(choice): choice for choice in pool}.values()]
    search, steps = Interpolation(lists, pool, start), 2 * sum(map(len, lists.values()))
    if level == 1:
        search.most = min(steps, max(_FEWEST, len(valid) // 4))
        search.first = search.spread(round(_SPREAD * search.most))
    elif level == 2 and is_whole:
        # In random order, so that an interrupted search has tried choices from everywhere.
        search.first = rng.sample(valid, len(valid))
    elif level == 2:
        search.first, search.most, search.power = pool[:DRAWN], DRAWN + steps, 6
    return search, len(valid)


class Interpolation:
    """A search that asks for the choices in `first`, then for those of a pool that look fastest; at most `most` in all.

    The expected time of a choice is a mean over the measured ones, weighted by their distance to the power of `-power`
    (Shepard's interpolation), so a higher power makes distant ones less important. Values of a parameter that are numbers
    are evenly spaced from 0 to 1; other values are equally far from each other. A choice that failed counts as the slowest.
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
        """Return choices of the pool, each as far as possible from the start and the ones before it."""
        names, chosen = list(self._pool), list(self._times)
        while names and len(chosen) <= count:
            chosen.append(names.pop(int(np.argmax(self._squares(names, chosen).min(axis=1)))))
        # Without the start, which is the first.
        return [self._pool[name] for name in chosen[1:]]

    def ask(self) -> list[Choice]:
        """Return the first choices; in later calls the untried ones that look fastest."""
        choices, self.first = self.first, []
        left = min(_AT_ONCE, self.most + 1 - len(self._times))
        if choices or left <= 0 or not self._pool:
            return choices
        slowest = max(time for time in self._times.values() if time is not None)
        times = [slowest if time is None else time for time in self._times.values()]
        names = list(self._pool)
        # A small number is added, since the default may have the same point as a choice, at distance 0.
        weights = (self._squares(names, list(self._times)) + 1e-9) ** (-self.power / 2)
        order = np.argsort(weights @ times / weights.sum(axis=1), kind="stable")
        return [self._pool[names[place]] for place in order[:left]]

    def tell(self, choice: Choice, ratio: float | None) -> None:
        """Note the time of a choice."""
        self._pool.pop(describe(choice), None)
        self._times[describe(choice)] = math.log(ratio) if ratio else None

    def _squares(self, names: list[str], others: list[str]) -> np.ndarray[Any, Any]:
        """Return the squares of all distances, as an array of shape (names, others)."""
        mine, theirs = ([self._points[name] for name in some] for some in (names, others))
        axes = zip(np.transpose(mine), np.transpose(theirs), strict=True)
        # One axis after the other, to save memory.
        return np.asarray(sum(np.subtract.outer(*axis) ** 2 for axis in axes))


def _point(lists: Mapping[str, tuple[Any, ...]], choice: Choice) -> list[float]:
    """Return the point of a choice: one coordinate for a parameter of numbers, else a coordinate for each value."""
    point = list[float]()
    for name, values in lists.items():
        value = choice[name]
        # By type: True is no number here, and 1 and 1.0 are different values.
        is_axis = {type(item) for item in (*values, value)} <= {int, float}
        if is_axis and len({*values}) == len(values):
            point.append(bisect.bisect_left(sorted(values), value) / max(1, len(values) - 1))
        else:
            point += [0.5 * (repr(other) == repr(value)) for other in values]
    return point
