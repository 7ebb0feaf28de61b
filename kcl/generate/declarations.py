"""A recipe on the line: its function, its parameters, and the user's declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple

from kcl.cache.key import Part


class Declarations(NamedTuple):
    """The declarations of one recipe, as `kcl.kernel` takes them.

    `pure` chooses how the recipe is keyed; `depends` has more parameters of a pure recipe; `version` is in each key.
    """

    depends: tuple[Any, ...] = ()
    version: str | None = None
    pure: bool = False

    @property
    def values(self) -> dict[str, Any]:
        """The values that count as the recipe's parameters do; no parameter can bear these names."""
        return {f"depends {number}": value for number, value in enumerate(self.depends)}

    @property
    def parts(self) -> list[Part]:
        """The part of a key for the version, if one is declared."""
        return [] if self.version is None else [Part("declared version", self.version)]


class RecipeCall(NamedTuple):
    """A recipe with its parameters and its declarations."""

    name: str
    function: Callable[..., object]
    arguments: dict[str, Any]
    declared: Declarations
    # Parameters that kcl fills in, and no caller: the sizes of a launch (`kcl.choices.sizes`).
    sizes: Mapping[str, Any] = MappingProxyType({})

    def run(self) -> object:
        """Run the recipe."""
        return self.function(**self.arguments, **self.sizes)

    @property
    def written(self) -> FunctionType:
        """The function that the user wrote, below decorators that keep it as `functools.wraps` does."""
        return below(self.function)


def below(function: Any) -> FunctionType:
    """Return the innermost function below decorators."""
    while isinstance(getattr(function, "__wrapped__", None), FunctionType):
        function = function.__wrapped__
    innermost: FunctionType = function
    return innermost


def declare(depends: Iterable[Any], version: str | None, pure: bool) -> Declarations:
    """Check and keep declarations; raise TypeError if a value is not a declaration."""
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
