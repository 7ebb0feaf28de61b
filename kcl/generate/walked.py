"""The inputs of the code of a pure recipe: its version, its parameters, and the files of its code.

The user promises that these decide the result. The recipe does not run on a hit, and nothing watches it on a miss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.cache.key import Key
from kcl.errors import UnknownInput
from kcl.generate import frontends
from kcl.record import beside, recorder
from kcl.record.callables import pure

if TYPE_CHECKING:
    import numpy as np

    from kcl.code import Code
    from kcl.record.declarations import Evidence, RecipeCall


class WalkedOrigin:
    """A pure recipe with its parameters; the key holds its inputs as of the first query."""

    remark = ""

    def __init__(self, task: RecipeCall) -> None:
        self.name = task.name
        # the front ends that the recipe's code names
        self.front_ends: frozenset[str] = frozenset()
        self._task = task
        self._result: frontends.Result | None = None
        self._has_key = False
        self._is_asked = False  # for its key
        self._moment: beside.Moment | None = None  # of the key; None while none can be known

    def renew(self) -> bool:
        """Forget the key if a program changed the generators since; return True if it did."""
        if not self._is_asked or (self._moment is not None and self._stands()):
            return False
        self._moment, self._result, self._has_key = None, None, False
        return True

    def _stands(self) -> bool:
        """Return True if the state of the generators is that of the key."""
        try:
            return beside.now() == self._moment
        except UnknownInput:
            return False

    def key(self) -> Key:
        """Return the key of the recipe's code and parameters; raises UnknownInput if a parameter has no exact text."""
        self.front_ends = pure.front_ends(self._task)
        self._is_asked = True
        moment = self._moment = beside.now()
        shared = [*beside.parts(True), *beside.switches(), *beside.state(moment)]
        key = Key((*shared, *pure.key_parts(self._task)))
        self._has_key = True
        return key

    def outcome(self) -> frontends.Result:
        """Run the recipe; with a key loopy's disk caches are off if loopy may be what it runs."""
        from kcl.generate import miss

        with (
            recorder.carrying(),
            miss.quiet("loopy" if self._has_key and self.front_ends != {"opencl"} else "opencl"),
        ):
            value = self._task.function(**self._task.arguments)
        self._result = frontends.accept(value, self.name)
        return self._result

    def generate(self, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
        """Generate code from the last result of the recipe."""
        from kcl.generate import miss

        assert self._result is not None
        code, refused = miss.generate(self.name, self._result, dtypes, self._has_key)
        changed = "" if self._stands() else "the generators were changed after the key"
        return code, refused or (changed if self._has_key else "")

    def anew(self, dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Run the recipe again and generate its code."""
        from kcl.generate import miss

        return miss.generate(self.name, self.outcome(), dtypes, self._has_key)[0]

    def place(self) -> Evidence:
        """Return the text and the place of the recipe; slow."""
        from kcl.record import description

        return description.of_recipe(self._task)

    def options(self) -> None:
        """Decide nothing: a hit does not run the recipe."""
