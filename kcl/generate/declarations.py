"""A call of a recipe: its function, its parameters, and the user's declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple

from kcl.cache.key import Part


class RecipeCall(NamedTuple):
    """A recipe with its parameters, and with its declarations as `kcl.kernel` takes them.

    `pure` chooses how the recipe is keyed; `depends` has more parameters of a pure recipe; `version` is in each key.
    """

    name: str
    function: Callable[..., object]
    arguments: dict[str, Any]
    depends: tuple[Any, ...] = ()
    version: str | None = None
    pure: bool = False
    # Parameters that kcl gives and not the caller: the sizes of a launch (`kcl.choices.sizes`).
    sizes: Mapping[str, Any] = MappingProxyType({})

    @property
    def version_parts(self) -> list[Part]:
        """The key part of the version; none if no version is declared."""
        return [] if self.version is None else [Part("declared version", self.version)]

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


def declare(depends: Iterable[Any], version: str | None, pure: bool) -> dict[str, Any]:
    """Return the declarations of a RecipeCall; raise TypeError if a value is not a declaration."""
    if isinstance(depends, (str, bytes)) or not isinstance(depends, Iterable):
        raise TypeError(f"@kcl.kernel(depends=...) takes a list, not {depends!r}")
    # Before its test: an array has no truth value, and a generator is always true.
    depends = tuple(depends)
    if version is not None and not isinstance(version, str):
        raise TypeError(f"@kcl.kernel(version=...) takes a text, not {version!r}")
    if not isinstance(pure, bool):
        raise TypeError(f"@kcl.kernel(pure=...) takes True or False, not {pure!r}")
    if pure and version is None:
        raise TypeError(
            "@kcl.kernel(pure=True) takes a version, because nothing runs on a hit that could notice a change: "
            'write @kcl.kernel(pure=True, version="1") and change the text with whatever the recipe reads'
        )
    if depends and not pure:
        raise TypeError(
            "@kcl.kernel(depends=...) counts for a pure recipe only, because any other runs in every process: "
            "write @kcl.kernel(pure=True, version=...) to skip its body on a hit, or remove depends"
        )
    return {"depends": depends, "version": version, "pure": pure}
