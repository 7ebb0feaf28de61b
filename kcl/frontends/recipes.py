"""The result of a recipe that runs in every process: it runs once, at the first look-up.

The front end of what the recipe returns makes the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl import frontends
from kcl.base import settings, spans
from kcl.generate.running import carrying, thread

if TYPE_CHECKING:
    import numpy as np

    from kcl.cache.key import Key
    from kcl.code import Code
    from kcl.generate.declarations import Evidence, RecipeCall
    from kcl.generate.protocol import Result, Unit


class RecipeResult:
    """What a recipe returned, as its front end accepts it."""

    def __init__(self, call: RecipeCall) -> None:
        self.name = call.name
        self.remark = ""
        self._call = call
        self._result: Result | None = None
        self._is_plain = False  # the recipe ran unrecorded, with the library's own caches

    @property
    def front_ends(self) -> frozenset[str]:
        """The front end of what the recipe returned; empty before the recipe ran."""
        return frozenset() if self._result is None else self._result.front_ends

    def renew(self) -> bool:
        """Forget the key if a program can have changed what it stands for; return True if it did."""
        return self._result is not None and self._result.renew()

    def key(self) -> Key:
        """Run the recipe, recorded, and return the key of what it returned; raises what both raise."""
        if self._result is None or self._is_plain:
            before = thread.carried
            with (
                spans.span("record", self.name, settings.GENERATOR),
                frontends.recording(self._call),
            ):
                value = self._call.run()
            carried = thread.carried - before
            self._result, self._is_plain = frontends.accept(value, self._call), False
            if carried:
                (library,) = self._result.front_ends
                self.remark = (
                    f"{carried} call(s) of {library} carried out: no earlier run proved them"
                )
        return self._result.key()

    def unit(self) -> Unit:
        """Return what generates the code; run the recipe unrecorded if it did not run."""
        if self._result is None:
            with carrying():
                value = self._call.run()
            self._result, self._is_plain = frontends.accept(value, self._call), True
        return self._result.unit()

    def generate(self, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
        """Generate code: (Code, why it must not be stored)."""
        return self._ran.generate(dtypes)

    def prove(self) -> None:
        """Write what later runs need beside the row that is stored next."""
        self._ran.prove()

    def evidence(self) -> Evidence:
        """Return the texts that explain a later miss; slow."""
        if self._result is None:
            from kcl.generate import evidence

            return evidence.of_recipe(self._call)
        return self._result.evidence()

    def options(self) -> tuple[str, ...] | None:
        """Return the build options of this run: no key holds the paths in them."""
        return self._ran.options()

    @property
    def _ran(self) -> Result:
        assert self._result is not None
        return self._result
