"""TunedKernel: the handle of a recipe with a space; a call is served the choice that was measured for its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyopencl as cl

if TYPE_CHECKING:
    from kcl.tuning.space import Choice, Space
    from kcl.tuning.table import Table


class TunedKernel:
    """The kernels of one recipe with a space. Called as a Kernel is. Thread-safe."""

    space: Space
    given: dict[str, Any]  # the parameters of the recipe that were given, and those without a choice
    defaults: dict[str, Any]  # the function's defaults of the free parameters
    name: str
    size_names: tuple[str, ...]

    def __call__(self, queue: cl.CommandQueue = None, *unnamed: Any, **arguments: Any) -> tuple[Any, Any]:
        """Launch the choice for the sizes of this call."""
        raise NotImplementedError

    def sizes_of(self, arguments: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of a call by name."""
        raise NotImplementedError

    def default_at(self, sizes: Mapping[str, int]) -> Choice:
        """Return the choice that runs untuned: the defaults, or the first valid choice where a predicate refuses these."""
        raise NotImplementedError

    def made(self, choice: Mapping[str, Any]) -> Any:
        """Return the handle with a choice of the free parameters; memoised, and nothing is stored before its launch."""
        raise NotImplementedError

    def table(self, queue: cl.CommandQueue, arguments: Mapping[str, Any]) -> Table | None:
        """Return the table for the device of a queue and the dtypes of a call; None if the recipe has no key."""
        raise NotImplementedError

    def forget(self) -> None:
        """Forget what was decided: the next call reads the table again."""
        raise NotImplementedError

    def tune(
        self,
        queue: cl.CommandQueue,
        *,
        level: int = 1,
        seconds: float = 60.0,
        search: Any = None,
        tolerance: float | None = None,
        again: bool = False,
        anyway: bool = False,
        **arguments: Any,
    ) -> Any:
        """Measure the choices with these arguments, and serve the fastest from now on."""
        raise NotImplementedError
