"""The result of a pure recipe: its key has the version, the parameters, and the files of the code.

The user promises that these decide the result. The recipe does not run on a hit, and nothing watches it on a miss.
"""

from __future__ import annotations

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
    """A pure recipe with its parameters; the key holds its inputs as of the first query."""

    # The front ends that the recipe's code names, once the key was asked for.
    front_ends: frozenset[str] = frozenset()

    def __init__(self, call: RecipeCall) -> None:
        self.name = call.name
        self._call = call
        self._unit: Unit | None = None
        self._is_asked = False
        # The moment of the key, None while none can be known. A key may fail after its moment.
        self._moment: moment.Moment | None = None
        self._has_key = False

    def renew(self) -> bool:
        """Forget the key if a program changed the generators since. Return True if the key was forgotten."""
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
        """Run the recipe; with a key the disk caches of the library that it may use are off."""
        from kcl.frontends.loopy import translation

        with (
            carrying(),
            translation.quiet(self._has_key and self.front_ends != {"opencl"}),
        ):
            value = self._call.function(**self._call.arguments)
        self._unit = frontends.accept(value, self._call).unit()
        return self._unit

    def generate(self, dtypes: Dtypes) -> Generated:
        """Generate code from the last outcome of the recipe."""
        assert self._unit is not None
        code, refused = self._unit.code(self.name, dtypes, self._has_key)
        # Code of generators that changed after the key must not lie under it.
        if self._has_key and not refused and not moment.stands(self._moment):
            refused = moment.CHANGED
        return code, refused

    def evidence(self) -> Evidence:
        """Return the text and the place of the recipe; slow."""
        from kcl.generate import evidence

        return evidence.of_recipe(self._call)


def key_parts(call: RecipeCall) -> list[Part]:
    """Return the parts of a pure recipe's key; raise UnknownInput if a parameter has no exact text."""
    encoder = Encoder()
    values = {f"{PARAMETER}{name}": value for name, value in call.arguments.items()}
    # No parameter can bear these names.
    values |= {f"depends {number}": value for number, value in enumerate(call.depends)}
    with encoder.having(promised=True):
        try:
            texts = {name: encoder.encode(value) for name, value in values.items()}
            texts[f"code {call.written.__qualname__}"] = encoder.encode(call.function)
        except Exception as error:
            # A parameter may run code of the program, which may raise anything.
            is_known = isinstance(error, UnknownInput)
            reason = str(error) if is_known else f"{type(error).__name__}: {error}"
            where = f"{call.name} ({site_of(call.written)})"
            raise UnknownInput(f"a parameter or the code of {where}: {reason}") from None
    return [*call.version_parts, *[Part(*pair) for pair in {**texts, **encoder.parts}.items()]]


def _front_ends(call: RecipeCall) -> frozenset[str]:
    """Return the front ends that the code of a recipe names itself; empty if it names none.

    The recipe has not run, and a switch of the generator layer may name one front end alone.
    """
    scope: dict[str, Any] = getattr(call.written, "__globals__", {})
    names = {getattr(scope.get(name), "__name__", name) for name in _names(call.written.__code__)}
    named = {"loopy": names & {"loopy", "kcl.loopy"}, "opencl": names & {"Source"}}
    return frozenset([end for end, words in named.items() if words])


def _names(code: CodeType) -> set[str]:
    # The code of inner functions stands among the constants.
    inner: list[Any] = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
