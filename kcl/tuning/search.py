"""Searches: which choices are measured next. A search needs no library, and `search=` takes any object of this form.

ask() -> list of choices        measured together; an empty list ends the search
tell(choice, ratio)             time / time of the default; None if the choice failed
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from typing import Any

from kcl.tuning.space import Choice, Space, said

WHOLE = 1024  # choices of which level 2 tries all
DRAWN, _DRAWS = 256, 12_800  # of a larger space: those that are tried, and the attempts to find valid ones
_FEWEST = 8  # level 1 tries so many of a small space, whose quarter is next to nothing


def of_level(
    level: int, space: Space, given: Mapping[str, Any], sizes: Mapping[str, int], start: Choice, seed: int = 0
) -> tuple[Descent, int]:
    """Return the search of a level from the choice `start`, and the number of valid choices (at most 1,025).

    Level 0 asks for nothing, 1 descends along one parameter at a time, 2 tries all choices, or descends from the best
    of some random ones. Raises ValueError for another level.
    """
    if level not in (0, 1, 2):
        raise ValueError(f"level {level!r} of tuning: write 0 (the defaults), 1 (a short search) or 2 (a long one)")
    lists = {name: values for name, values in space.lists.items() if name not in given}
    known = list(itertools.islice(space.choices(given, sizes), WHOLE + 1))
    found = Descent(lists, lambda choice: not space.refusal({**given, **choice}, sizes), start)
    steps = 2 * sum(map(len, lists.values()))
    if level == 1:
        found.most = min(steps, max(_FEWEST, len(known) // 4))
    elif level == 2 and len(known) <= WHOLE:
        found.first = random.Random(seed).sample(known, len(known))  # a search that is cut short has seen all corners
    elif level == 2:
        draw = random.Random(seed).choice
        drawn = ({name: draw(values) for name, values in lists.items()} for _ in range(_DRAWS))
        found.first = list({said(one): one for one in drawn if found.is_valid(one)}.values())[:DRAWN]
        found.most = DRAWN + steps
    return found, len(known)


class Descent:
    """Coordinate descent: all values of one parameter, the others as in the best choice so far.

    Before that the choices in `first`; at most `most` choices in all. It ends after a turn through all parameters
    without a better choice.
    """

    def __init__(self, lists: Mapping[str, tuple[Any, ...]], is_valid: Callable[[Choice], bool], start: Choice) -> None:
        self.lists, self.is_valid = lists, is_valid
        self.first: list[Choice] = []
        self.most = 0
        self._best, self._ratio = dict(start), 1.0
        self._known = {said(start)}
        self._turn = itertools.cycle(lists)
        self._vain = 0  # parameters in sequence without a better choice

    def ask(self) -> list[Choice]:
        """Return the first choices, then the untried values of the next parameter that has some."""
        found, self.first = self.first, []
        left = self.most - len(self._known) + 1
        while not found and left > 0 and self._vain < len(self.lists):
            self._vain += 1
            name = next(self._turn)
            line = [{**self._best, name: value} for value in self.lists[name]]
            found = [one for one in line if said(one) not in self._known and self.is_valid(one)][:left]
        return found

    def tell(self, choice: Choice, ratio: float | None) -> None:
        """Go to a better choice."""
        self._known.add(said(choice))
        if ratio is not None and ratio < self._ratio:
            self._best, self._ratio, self._vain = dict(choice), ratio, 0
