"""The inputs of the code of a pure recipe: its walked code, its parameters, and its reads on a miss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.cache.key import Key, Part
from kcl.generate.rows import RecipeFacts, RecipeOutcome
from kcl.record import beside
from kcl.record.callables.reach import Reach, reach
from kcl.record.declarations import NOTHING, PURE, RecipeCall
from kcl.record.evidence import Evidence, site_of

if TYPE_CHECKING:
    import numpy as np

    from kcl.code import Code


class WalkedOrigin:
    """A pure recipe with its parameters; the key holds its inputs as of the first query."""

    remark = ""
    recipe = ""
    own_seconds = 0.0

    def __init__(self, task: RecipeCall) -> None:
        self.name = task.name
        self.front_ends: frozenset[str] = frozenset()  # the front ends that the recipe's code leads to
        self.directory = ""  # of the recipe's module
        self._task = task
        self._reached: Reach | None = None
        self._moment: dict[tuple[str, str], str] = {}
        self._outcome: RecipeOutcome | None = None

    def renew(self) -> bool:
        """Keep the key, which is that of the first query."""
        return False

    def key(self) -> Key:
        """Return the key of the recipe's code and parameters; raises UnknownInput where it cannot be known."""
        self._reached = found = reached(self._task)
        self.front_ends, self.directory = found.front_ends, found.directory
        more = beside.own()
        if found.front_ends != {"opencl"}:
            more += [*beside.switches(), *beside.state(beside.now())]
        if self._task.declared not in (NOTHING, PURE):
            more = [*self._task.declared.parts, *more]
        return Key((*found.parts, *more))

    def moved(self) -> str:
        """Return an empty text: a pure recipe vouches for it."""
        return ""

    def as_of_now(self, base: RecipeFacts) -> RecipeFacts:
        """Give each read of the recipe the content that it had at this Kernel's first look-up."""
        if not base.reads:
            return base
        from kcl.record import manifest

        reads = []
        for read in base.reads:
            place = (read.base, read.path)
            if place not in self._moment:
                self._moment[place] = manifest.content(read, self.directory)
            reads.append(read._replace(digest=self._moment[place]))
        return base._replace(reads=tuple(reads))

    def outcome(self) -> RecipeOutcome:
        """Run the recipe under observation."""
        from kcl.generate import run

        self._outcome = ran = run.run(self._task, self._reached)
        self._moment.update({(read.base, read.path): read.digest for read in ran.reads})
        return ran

    def generate(self, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str, bool]:
        """Generate code from the last result of the recipe."""
        from kcl.generate import run

        assert self._outcome is not None
        return run.generate(self.name, self._task.declared, self._outcome.result, dtypes)

    def anew(self, dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Run the recipe again and generate its code."""
        from kcl.generate import run

        result = run.run(self._task, self._reached).result
        return run.generate(self.name, self._task.declared, result, dtypes)[0]

    def place(self) -> Evidence:
        """Return the place of the recipe, and the texts of its code; slow."""
        from kcl.generate import run

        return run.place_of(self._reached)._replace(site=site_of(self._task.function))

    def options(self) -> None:
        """Decide nothing: a hit does not run the recipe."""


def reached(task: RecipeCall) -> Reach:
    """Find the inputs of a recipe's result, declarations included; raises UnknownInput where they cannot be known."""
    declared = task.declared
    if not declared.made:
        return reach(task.function, task.arguments)
    found = reach(task.function, {**task.arguments, **declared.values}, declared.excuses)
    named = {f"parameter {name}": name for name in declared.values}
    if not named:
        return found
    parts = tuple(Part(named.get(name, name), value) for name, value in found.parts)
    return found._replace(parts=parts)
