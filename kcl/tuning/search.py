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

from kcl.tuning.space import Choice, Space, said

WHOLE = 1024  # choices of which level 2 tries all
# of a larger space: those that are tried, and the attempts to find valid ones
DRAWN, _DRAWS = (
    256,
    12_800,
)
_FEWEST = 8  # level 1 tries so many of a small space, whose quarter is next to nothing
_SPREAD = 0.35  # of the choices of level 1 lie far apart; the others follow what these tell
_AT_ONCE = 4  # choices that are built and raced together


def of_level(
    level: int,
    space: Space,
    given: Mapping[str, Any],
    sizes: Mapping[str, int],
    start: Choice,
    seed: int = 0,
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
    pool = known = list(itertools.islice(space.choices(given, sizes), WHOLE + 1))
    steps = 2 * sum(map(len, lists.values()))
    if len(known) > WHOLE:
        draw = random.Random(seed).choice
        drawn = ({name: draw(values) for name, values in lists.items()} for _ in range(_DRAWS))
        pool = list(
            {said(one): one for one in drawn if not space.refusal({**given, **one}, sizes)}.values()
        )
    found = Interpolation(lists, pool, start)
    if level == 1:
        found.most = min(steps, max(_FEWEST, len(known) // 4))
        found.first = found.spread(round(_SPREAD * found.most))
    elif level == 2 and pool is known:
        # a search that is cut short has seen all corners
        found.first = random.Random(seed).sample(known, len(known))
    elif level == 2:
        found.first, found.most, found.power = pool[:DRAWN], DRAWN + steps, 6
    return found, len(known)


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
        self._pool = {said(one): one for one in pool}
        self._points = {said(one): _point(lists, one) for one in [*pool, start]}
        self._times: dict[str, float | None] = {said(start): 0.0}
        self._pool.pop(said(start), None)

    def spread(self, count: int) -> list[Choice]:
        """Return choices of the pool, each as far as possible from the start and from those before it."""
        names, found = list(self._pool), list(self._times)
        while names and len(found) <= count:
            found.append(names.pop(int(np.argmax(self._squares(names, found).min(axis=1)))))
        return [self._pool[name] for name in found[1:]]

    def ask(self) -> list[Choice]:
        """Return the first choices, then the untried ones that look fastest."""
        found, self.first = self.first, []
        left = min(_AT_ONCE, self.most + 1 - len(self._times))
        if not found and left > 0 and self._pool:
            known = [time for time in self._times.values() if time is not None]
            times = [max(known) if time is None else time for time in self._times.values()]
            names = list(self._pool)
            # a default may lie where a choice does
            squares = self._squares(names, list(self._times)) + 1e-9
            weights = squares ** (-self.power / 2)
            order = np.argsort(weights @ np.array(times) / weights.sum(axis=1), kind="stable")
            found = [self._pool[names[place]] for place in order[:left]]
        return found

    def tell(self, choice: Choice, ratio: float | None) -> None:
        """Keep what a choice takes."""
        self._pool.pop(said(choice), None)
        self._times[said(choice)] = math.log(ratio) if ratio else None

    def _squares(self, names: list[str], others: list[str]) -> np.ndarray[Any, Any]:
        """Return the square of the distance from each to each, as an array of shape (names, others)."""
        mine, theirs = (
            np.array([self._points[name] for name in some]).T for some in (names, others)
        )
        return np.asarray(sum((a[:, None] - b) ** 2 for a, b in zip(mine, theirs, strict=True)))


def _point(lists: Mapping[str, tuple[Any, ...]], choice: Choice) -> list[float]:
    """Return where a choice lies: one axis for a parameter of numbers, an axis a value for any other."""
    found = list[float]()
    for name, values in lists.items():
        value = choice[name]
        if {type(one) for one in (*values, value)} <= {int, float} and len(set(values)) == len(
            values
        ):
            found.append(bisect.bisect_left(sorted(values), value) / max(1, len(values) - 1))
        else:
            found += [0.5 * (type(one) is type(value) and one == value) for one in values]
    return found
