"""Launches loopy's own units through kcl's layers, while the integrations are installed.

Modules of the program that import loopy from then on get its face, and calls of those that have loopy itself are
recorded. Libraries use loopy itself, and their units are made as usual: kcl looks such a unit up by its content when an
executor of loopy launches it, also by `unit(queue, ...)`.

With the generator layer off no calls are recorded. Units that were made through the face are launched by kcl then too,
even without the integrations, so that they use the binary layer.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from kcl.base import port, unwrap
from kcl.frontends.loopy import imports
from kcl.frontends.loopy.plain import loaded

Function = Callable[..., Any]

# The names that loopy must have (see `kcl.integrations`).
NEEDED = ("TranslationUnit.executor",)

_LOOPY = frozenset({"loopy"})
# The attribute of a unit with its UnitKernels.
_KERNELS = "_kcl_kernels"
# The attribute of an executor with the Kernel that launches it; None if loopy launches it.
_LAUNCHER = "_kcl_launcher"
# The attribute that marks a function by which kcl has replaced one of loopy's.
_OURS = "_kcl_units"


class UnitKernels:
    """The last Kernels of a unit, by entry point. A copy of the unit starts without any."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        # True if kcl launches the unit although the generator layer is off.
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
    """Have kcl launch a loopy unit that the program made through the face while the generator layer was off."""
    if imports.is_for_good():
        _watch_launches()
        _kernels(unit).taken = True


def _watch_launches() -> None:
    """Replace the executor's launch, once. Units that were not passed to `take` are still launched by loopy."""
    unit = sys.modules["loopy"].TranslationUnit
    if not hasattr(unit.with_entrypoints, _OURS):
        from kcl.base import events

        # So that a program without recipes gets a report too.
        events.listen()
        unit.with_entrypoints = _taken_along(unit.with_entrypoints)
    executor = importlib.import_module("loopy.target.pyopencl_execution").PyOpenCLExecutor
    # No lock: wrapping it twice would do no harm.
    if not hasattr(executor.__call__, _OURS):
        executor.__call__ = _launch(executor, executor.__call__, all_units=False)


def _taken_along(original: Function) -> Function:
    @functools.wraps(original)
    def with_entrypoints(self: Any, entrypoints: Any) -> Any:
        chosen = original(self, entrypoints)
        if _is_taken(self):
            _kernels(chosen).taken = True
        return chosen

    vars(with_entrypoints)[_OURS] = True
    return with_entrypoints


def _launch(kind: Any, original: Function, all_units: bool = True) -> Function:
    if getattr(unwrap(original), "__globals__", None) is not vars(sys.modules[kind.__module__]):
        # The program put its own launch there.
        return original

    @functools.wraps(original)
    def launch(self: Any, queue: Any, **keywords: Any) -> Any:
        names = vars(self)
        if _LAUNCHER not in names and type(self) is kind and (all_units or _is_taken(self.t_unit)):
            # As in loopy, the first launch decides the code, which is kept with the executor.
            names.setdefault(_LAUNCHER, _launcher(self.t_unit, self.entrypoint, self.context))
        kernel = names.get(_LAUNCHER)
        return original(self, queue, **keywords) if kernel is None else kernel(queue, **keywords)

    vars(launch)[_OURS] = True
    return launch


def _is_taken(unit: Any) -> bool:
    kernels: UnitKernels | None = vars(unit).get(_KERNELS)
    return kernels is not None and kernels.taken


def _kernels(unit: Any) -> UnitKernels:
    """Return the UnitKernels of a unit."""
    names = vars(unit)
    # Set in the dictionary, since units are frozen.
    kernels: UnitKernels = names.get(_KERNELS) or names.setdefault(_KERNELS, UnitKernels())
    return kernels


def _launcher(unit: Any, entrypoint: str, holder: Any) -> Any:
    """Return the Kernel of an entry point for the context of `holder`; None if loopy must launch it."""
    from kcl.cache import layers

    is_for_opencl = isinstance(unit.target, sys.modules["loopy"].PyOpenCLTarget)
    if not is_for_opencl or (layers.generator().off(_LOOPY) and not _is_taken(unit)):
        return None
    from kcl.errors import RecipeError

    try:
        return _kernel(unit, entrypoint, holder)
    except Exception as error:
        # Not imported: if the error is loopy's, the module is loaded.
        loopys: Any = loaded("loopy.diagnostic", "LoopyError", ())
        if not isinstance(error, (RecipeError, loopys)):
            layers.generator().fault("take a unit of loopy", error)
        return None


def _kernel(unit: Any, entrypoint: str, holder: Any) -> Any:
    """Return the Kernel for the present content of a unit; the last one if the content is the same."""
    from kcl.errors import UnknownInput
    from kcl.frontends.loopy.result import LoopyResult

    kernels = _kernels(unit).found
    made, kernel = LoopyResult.of_unit(unit, entrypoint), kernels.get(entrypoint)
    try:
        key = made.key()
    except UnknownInput:
        # Without a key the code of one executor cannot serve another.
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
