"""A recipe on the line: its function and parameters, and the user's declarations of inputs that kcl cannot see."""

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

    `pure` chooses how the recipe is keyed. The other fields are inputs. They apply to a pure recipe, `version` to all.
    """

    reads: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    depends: tuple[Any, ...] = ()
    version: str | None = None
    pure: bool = False

    @property
    def made(self) -> list[str]:
        """The names of the inputs that the user declared; `pure` is not an input."""
        return [name for name in _INPUTS if getattr(self, name) not in ((), None)]

    def excuses(self, reason: str) -> bool:
        """Tell whether a declaration cures a reason against a key: the reason names it, or the user gave `version`."""
        return self.version is not None or any(f"({name}=" in reason for name in self.made)

    @property
    def values(self) -> dict[str, Any]:
        """The values that count as the recipe's parameters do; no parameter can bear these names."""
        return {f"depends {number}": value for number, value in enumerate(self.depends)}

    @property
    def parts(self) -> list[Part]:
        """The declarations themselves; they decide which inputs are read before a hit."""
        found = [Part("declared version", self.version)] if self.version is not None else []
        found += [Part("declared read", pattern) for pattern in self.reads]
        return found + [Part("declared variable", name) for name in self.env]

    def inputs(self, directory: str) -> list[ReadFact]:
        """Return the declared inputs as they are now; `directory` is the recipe's module's."""
        from kcl.record import manifest

        return [*manifest.declared(self.reads, directory), *manifest.variables(self.env)]

    def covers(self, path: str, directory: str) -> bool:
        """Tell whether a path is among the declared reads, or on the way to a declared read."""
        from kcl.record import manifest

        path = os.path.abspath(path)
        return any(manifest.covers(os.path.abspath(os.path.join(directory, read)), path) for read in self.reads)

    def refused(self, observed: Observations, directory: str, sentence: str) -> str:
        """Return `sentence` about the first action that no key can hold and no declaration cures, with its cure."""
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
    """A recipe with its parameters and its declarations."""

    name: str
    function: Callable[..., object]
    arguments: dict[str, Any]
    declared: Declarations

    @property
    def written(self) -> FunctionType:
        """The function that the user wrote, below decorators that keep it as `functools.wraps` does."""
        return below(self.function)


def below(function: Any) -> FunctionType:
    """Return the innermost function below decorators."""
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
    """Check and keep declarations; raise TypeError where a value is not a declaration."""
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
