"""A recipe on the line: its function and parameters, and what its user declares of inputs that kcl cannot see."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.cache.key import Part

if TYPE_CHECKING:
    from kcl.record.manifest import ReadFact
    from kcl.record.observe import Observations


class Declarations(NamedTuple):
    """The declarations of one recipe, as `kcl.kernel` takes them.

    `pure` chooses how the recipe is keyed. The other fields are inputs; they apply to a pure recipe, `version` to all.
    """

    reads: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    depends: tuple[Any, ...] = ()
    version: str | None = None
    pure: bool = False

    @property
    def made(self) -> list[str]:
        """The names of the inputs that are declared; `pure` is not an input."""
        return [name for name in _INPUTS if getattr(self, name) not in ((), None)]

    def excuses(self, reason: str) -> bool:
        """Tell whether a declaration cures a reason against a key: it is named in the reason, or `version` is given."""
        return self.version is not None or any(f"({name}=" in reason for name in self.made)

    @property
    def values(self) -> dict[str, Any]:
        """What counts as the recipe's parameters do; no parameter can bear such a name."""
        return {f"depends {number}": value for number, value in enumerate(self.depends)}

    @property
    def parts(self) -> list[Part]:
        """The declarations themselves, which decide what is looked at before a hit."""
        found = [Part("declared version", self.version)] if self.version is not None else []
        found += [Part("declared read", pattern) for pattern in self.reads]
        return found + [Part("declared variable", name) for name in self.env]

    def inputs(self, directory: str) -> list[ReadFact]:
        """Return what was declared as it is now; `directory` is that of the recipe's module."""
        from kcl.record import manifest

        return [*manifest.declared(self.reads, directory), *manifest.variables(self.env)]

    def covers(self, path: str, directory: str) -> bool:
        """Tell whether a path is among the declared reads, or on the way to one."""
        from kcl.record import manifest

        path = os.path.abspath(path)
        return any(manifest.covers(os.path.abspath(os.path.join(directory, read)), path) for read in self.reads)

    def refused(self, observed: Observations, directory: str, sentence: str) -> str:
        """Say in `sentence` what was seen that no key can hold and no declaration cures, with what would cure it."""
        for refusal in observed.refusals:
            if self.version is not None or (refusal.cure == "env" and self.env):
                continue
            if refusal.cure == "reads" and refusal.path and self.covers(refusal.path, directory):
                continue
            where = f" ({os.path.basename(os.path.abspath(refusal.path))})" if refusal.path else ""
            return f"{sentence.format(refusal.what + where)}; {_CURES[refusal.cure]}"
        return ""


_INPUTS = ("reads", "env", "depends", "version")
NOTHING = Declarations()
PURE = Declarations(pure=True)
_CURES = {
    "reads": "declare it with @kcl.kernel(reads=[...])",
    "env": "declare the variables that count with @kcl.kernel(env=[...])",
    "version": "do it outside of the recipe, or vouch for it with @kcl.kernel(version=...)",
}


class RecipeCall(NamedTuple):
    """A recipe with its parameters and what its user declared."""

    name: str
    function: Callable[..., object]
    arguments: dict[str, Any]
    declared: Declarations

    @property
    def written(self) -> FunctionType:
        """The function that the user wrote, below decorators that keep it as `functools.wraps` does."""
        return below(self.function)


def below(function: Any) -> FunctionType:
    """Return the innermost function of one that decorators wrap."""
    while isinstance(getattr(function, "__wrapped__", None), FunctionType):
        function = function.__wrapped__
    found: FunctionType = function
    return found


def declare(
    reads: Iterable[Any],
    env: Iterable[str],
    depends: Iterable[Any],
    version: str | None,
    pure: bool,
) -> Declarations:
    """Check and keep declarations; raises TypeError where one cannot be meant."""
    for name, value in (("reads", reads), ("env", env), ("depends", depends)):
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"@kcl.kernel({name}=...) takes a list, not {value!r}")
    if version is not None and not isinstance(version, str):
        raise TypeError(f"@kcl.kernel(version=...) takes a text, not {version!r}")
    if not isinstance(pure, bool):
        raise TypeError(f"@kcl.kernel(pure=...) takes True or False, not {pure!r}")
    return Declarations(
        tuple(_text("reads", os.fspath(read)) for read in reads),
        tuple(_text("env", name) for name in env),
        tuple(depends),
        version,
        pure,
    )


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"@kcl.kernel({name}=...) lists texts, not {value!r}")
    return value
