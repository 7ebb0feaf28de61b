"""loopy's units through the layers of kcl: their launches while the integrations are installed.

The program's own modules get the face of loopy where they import it from now on. Where they have loopy itself, kcl
records their calls at its functions. Libraries have loopy itself, and their units are made: kcl looks a made unit up by
its content as it is launched by an executor of loopy's own, which `unit(queue, ...)` makes, too.

With the generator layer off calls are not recorded, and a program has loopy itself. Units that it made through the face
are launched in the same way, also if the integrations are not installed: the binary layer goes on.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from kcl.base import port, unwrap
from kcl.frontends.loopy import imports

# What `kcl.integrations` probes before it takes the replacements.
NEEDED = ("TranslationUnit.executor",)

_LOOPY = frozenset({"loopy"})
# An attribute of a unit: the kernels of its entry points.
_KERNELS = "_kcl_kernels"
# An attribute of an executor: what launches it, None for loopy.
_LAUNCHER = "_kcl_launcher"
# An attribute of a function that kcl put in the place of loopy's.
_OURS = "_kcl_units"


class UnitKernels:
    """The last kernels of a unit, by entry point; a copy of a unit has none."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        # True if kcl launches the unit though the generator layer is off.
        self.taken = False

    def __reduce__(self) -> Any:
        # A copy or a pickle of a unit begins without kernels.
        return UnitKernels, ()


def replacements(_package: Any) -> list[tuple[Any, str, Any]]:
    """Return the replacements of loopy's functions: (holder, name, value)."""
    from kcl.base import events

    events.listen()
    imports.watch()
    executor = importlib.import_module("loopy.target.pyopencl_execution").PyOpenCLExecutor
    return [(executor, "__call__", _launch(executor, executor.__call__))]


def take(unit: Any) -> None:
    """Let kcl launch a unit of loopy's own, which the program made through the face with the generator layer off."""
    if imports.is_for_good():
        _watch_launches()
        _kernels(unit).taken = True


def _watch_launches() -> None:
    """Put kcl's launch in the place of the executor's, once; units that were not taken stay loopy's."""
    unit = sys.modules["loopy"].TranslationUnit
    if not hasattr(unit.with_entrypoints, _OURS):
        from kcl.base import events

        # A program without recipes gets a report of its layers too.
        events.listen()
        unit.with_entrypoints = _taken_along(unit.with_entrypoints)
    executor = importlib.import_module("loopy.target.pyopencl_execution").PyOpenCLExecutor
    # Without a lock two threads may wrap it twice, which has no effect.
    if not hasattr(executor.__call__, _OURS):
        executor.__call__ = _launch(executor, executor.__call__, all_units=False)


def _taken_along(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def with_entrypoints(self: Any, entrypoints: Any) -> Any:
        chosen = original(self, entrypoints)
        if _is_taken(self):
            _kernels(chosen).taken = True
        return chosen

    vars(with_entrypoints)[_OURS] = True
    return with_entrypoints


def _launch(kind: Any, original: Callable[..., Any], all_units: bool = True) -> Callable[..., Any]:
    if getattr(unwrap(original), "__globals__", None) is not vars(sys.modules[kind.__module__]):
        # The program put its own launch there.
        return original

    @functools.wraps(original)
    def launch(self: Any, queue: Any, **keywords: Any) -> Any:
        names = vars(self)
        if _LAUNCHER not in names and type(self) is kind and (all_units or _is_taken(self.t_unit)):
            # loopy too generates at this launch, and keeps the code with the executor.
            names.setdefault(_LAUNCHER, _launcher(self.t_unit, self.entrypoint, self.context))
        kernel = names.get(_LAUNCHER)
        return original(self, queue, **keywords) if kernel is None else kernel(queue, **keywords)

    vars(launch)[_OURS] = True
    return launch


def _is_taken(unit: Any) -> bool:
    kernels: UnitKernels | None = vars(unit).get(_KERNELS)
    return kernels is not None and kernels.taken


def _kernels(unit: Any) -> UnitKernels:
    """Return the kernels that are kept on a unit."""
    names = vars(unit)
    # Units are frozen, so the attribute is written past their class.
    kernels: UnitKernels = names.get(_KERNELS) or names.setdefault(_KERNELS, UnitKernels())
    return kernels


def _launcher(unit: Any, entrypoint: str, holder: Any) -> Any:
    """Return the kernel of an entry point for the context of `holder`; None if loopy has to launch it."""
    from kcl.cache import layers

    is_for_opencl = isinstance(unit.target, sys.modules["loopy"].PyOpenCLTarget)
    if not is_for_opencl or (layers.generator().off(_LOOPY) and not _is_taken(unit)):
        return None
    from kcl.errors import RecipeError

    try:
        return _kernel(unit, entrypoint, holder)
    except Exception as error:
        # The diagnostics are looked up, not imported: an error of loopy has imported them.
        loopys: Any = getattr(sys.modules.get("loopy.diagnostic"), "LoopyError", ())
        if not isinstance(error, (RecipeError, loopys)):
            layers.generator().fault("take a unit of loopy", error)
        return None


def _kernel(unit: Any, entrypoint: str, holder: Any) -> Any:
    """Return the kernel of a unit as it is now: the last one, if its unit had the same content."""
    from kcl.errors import UnknownInput
    from kcl.frontends.loopy.result import LoopyResult

    kernels = _kernels(unit).found
    made, kernel = LoopyResult.of_unit(unit, entrypoint), kernels.get(entrypoint)
    try:
        key = made.key()
    except UnknownInput:
        # Each executor generates, as loopy does, without loopy's own caches.
        return port("kernels").kernel_of(made, holder)
    line = kernel and port("kernels").chooser_of(kernel)
    if (
        line is None
        or not line.serves(holder)
        or line.generate.is_mixed
        or line.generate.key() != key
    ):
        kernel = kernels[entrypoint] = port("kernels").kernel_of(made, holder)
    return kernel
