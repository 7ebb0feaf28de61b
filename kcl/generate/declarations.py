"""A call of a recipe: its function, its parameters, and the user's declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple

from kcl.cache.key import Part


class Declarations(NamedTuple):
    """The declarations of one recipe: the arguments `pure`, `depends` and `version` of `kcl.kernel`."""

    depends: tuple[Any, ...] = ()
    version: str | None = None
    pure: bool = False

    @property
    def values(self) -> dict[str, Any]:
        """The values of `depends` under names that no parameter can have, so that keys treat them as parameters."""
        return {f"depends {number}": value for number, value in enumerate(self.depends)}

    @property
    def parts(self) -> list[Part]:
        """The key part of the version; none if no version is declared."""
        return [] if self.version is None else [Part("declared version", self.version)]


class RecipeCall(NamedTuple):
    """A recipe's function with its parameters and its declarations."""

    name: str
    function: Callable[..., object]
    arguments: dict[str, Any]
    declared: Declarations
    # Parameters that kcl gives and not the caller: the sizes of a launch (`kcl.choices.sizes`).
    sizes: Mapping[str, Any] = MappingProxyType({})

    def run(self) -> object:
        """Run the recipe."""
        return self.function(**self.arguments, **self.sizes)

    @property
    def written(self) -> FunctionType:
        """The function that the user wrote, without its decorators, as far as they use `functools.wraps`."""
        return below(self.function)


def below(function: Any) -> FunctionType:
    """Return the innermost function below decorators that use `functools.wraps`."""
    while isinstance(getattr(function, "__wrapped__", None), FunctionType):
        function = function.__wrapped__
    innermost: FunctionType = function
    return innermost


def declare(depends: Iterable[Any], version: str | None, pure: bool) -> Declarations:
    """Check the arguments of `kcl.kernel` and return them as Declarations; raise TypeError for wrong ones."""
    if isinstance(depends, (str, bytes)) or not isinstance(depends, Iterable):
        raise TypeError(f"@kcl.kernel(depends=...) takes a list, not {depends!r}")
    if version is not None and not isinstance(version, str):
        raise TypeError(f"@kcl.kernel(version=...) takes a text, not {version!r}")
    if not isinstance(pure, bool):
        raise TypeError(f"@kcl.kernel(pure=...) takes True or False, not {pure!r}")
    if pure and version is None:
        raise TypeError(
            "@kcl.kernel(pure=True) takes a version, because nothing runs on a hit that could notice a change: "
            'write @kcl.kernel(pure=True, version="1") and change the text with whatever the recipe reads'
        )
    return Declarations(tuple(depends), version, pure)
