"""The Result of a pure recipe: its key has the version, the parameters, and the files of the code.

The user promises that these decide the result. The recipe does not run on a hit, and its calls are never recorded.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import CodeType
from typing import TYPE_CHECKING, Any

from kcl import frontends
from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.frontends.loopy import moment
from kcl.frontends.loopy.callables.encoder import Encoder
from kcl.generate import carrying
from kcl.generate.evidence import PARAMETER, site_of
from kcl.generate.protocol import Result

if TYPE_CHECKING:
    from kcl.code import Dtypes, Generated
    from kcl.generate.declarations import RecipeCall
    from kcl.generate.evidence import Evidence
    from kcl.generate.protocol import Unit


class PureResult(Result):
    """The Result of a pure recipe with its parameters."""

    # The front ends whose names the recipe's code uses; empty before the key was computed.
    front_ends: frozenset[str] = frozenset()

    def __init__(self, call: RecipeCall) -> None:
        self.name = call.name
        self._call = call
        self._unit: Unit | None = None
        self._is_asked = False
        # The state of the process when the key was computed; None if it cannot be known. There may be no key all the same.
        self._moment: moment.Moment | None = None
        self._has_key = False

    def renew(self) -> bool:
        """Forget the key if the program has changed the generators since; return True if it was forgotten."""
        if not self._is_asked or moment.stands(self._moment):
            return False
        self._moment, self._unit, self._has_key = None, None, False
        return True

    def key(self) -> Key:
        """Return the key of the recipe's code and parameters; raises UnknownInput if a parameter has no exact text."""
        self.front_ends = _front_ends(self._call)
        self._is_asked = True
        now = self._moment = moment.now()
        key = Key((*moment.parts(), *moment.state(now), *key_parts(self._call)))
        self._has_key = True
        return key

    def unit(self) -> Unit:
        """Run the recipe; if it has a key, with loopy's own disk caches off."""
        with ExitStack() as block:
            block.enter_context(carrying())
            if self._has_key and self.front_ends != {"opencl"}:
                # Imported late, since only a front end that may be loopy needs it.
                from kcl.frontends.loopy import translation

                block.enter_context(translation.quiet(may_run=True))
            value = self._call.function(**self._call.arguments)
        self._unit = frontends.accept(value, self._call).unit()
        return self._unit

    def generate(self, dtypes: Dtypes) -> Generated:
        """Generate code from the unit that the recipe returned when it was last run."""
        assert self._unit is not None
        code, refused = self._unit.code(self.name, dtypes, self._has_key)
        # If the generators were changed after the key was computed, the code must not be stored under it.
        if self._has_key and not refused and not moment.stands(self._moment):
            refused = moment.CHANGED
        return code, refused

    def evidence(self) -> Evidence:
        """Return the source and the place of the recipe; slow."""
        from kcl.generate import evidence

        return evidence.of_recipe(self._call)


def key_parts(call: RecipeCall) -> list[Part]:
    """Return the key parts of a pure recipe; raise UnknownInput if a parameter has no exact text."""
    encoder = Encoder()
    values = {f"{PARAMETER}{name}": value for name, value in call.arguments.items()}
    # No parameter can bear these names.
    values |= {f"depends {number}": value for number, value in enumerate(call.depends)}
    with encoder.having(promised=True):
        try:
            texts = {name: encoder.encode(value) for name, value in values.items()}
            texts[f"code {call.written.__qualname__}"] = encoder.encode(call.function)
        except Exception as error:
            # Code of the program, such as `__kcl_key__` of a parameter, may raise anything.
            is_known = isinstance(error, UnknownInput)
            reason = str(error) if is_known else f"{type(error).__name__}: {error}"
            where = f"{call.name} ({site_of(call.written)})"
            raise UnknownInput(f"a parameter or the code of {where}: {reason}") from None
    return [*call.version_parts, *[Part(*pair) for pair in {**texts, **encoder.parts}.items()]]


def _front_ends(call: RecipeCall) -> frozenset[str]:
    """Guess a recipe's front ends by the names in its code; empty if it names none.

    Needed because the recipe has not run yet, and the generator layer may be off for one front end only.
    """
    scope: dict[str, Any] = getattr(call.written, "__globals__", {})
    names = {getattr(scope.get(name), "__name__", name) for name in _names(call.written.__code__)}
    named = {"loopy": names & {"loopy", "kcl.loopy"}, "opencl": names & {"Source"}}
    return frozenset([end for end, words in named.items() if words])


def _names(code: CodeType) -> set[str]:
    # Inner functions are among the constants.
    inner: list[Any] = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
