"""loopy's units through the layers of kcl: their launches while the integrations are installed.

The program's own modules get the face of loopy where they import it from now on. Where they have loopy itself, kcl
records their calls at its functions. Libraries have loopy itself, and their units are made: kcl looks a made unit up by
its content as it is launched by an executor of loopy's own, which `unit(queue, ...)` makes, too.

With the generator layer off calls are not recorded, and a program has loopy itself.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kcl.record import imports

_LOOPY = frozenset({"loopy"})
_LAUNCHER = "_kcl_launcher"  # on an executor: what launches it, None for loopy


def replacements(_package: Any) -> list[tuple[Any, str, Any]]:
    """Return the replacements of loopy's functions: (holder, name, value)."""
    from kcl.base import events

    events.listen()
    imports.watch()
    executor = importlib.import_module("loopy.target.pyopencl_execution").PyOpenCLExecutor
    return [(executor, "__call__", _launch(executor, executor.__call__))]


def _launch(kind: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def launch(self: Any, queue: Any, **keywords: Any) -> Any:
        held = vars(self)
        if _LAUNCHER not in held and type(self) is kind:
            # loopy generates at this launch, too, and keeps the code with the executor
            held.setdefault(_LAUNCHER, _launcher(self.t_unit, self.entrypoint, self.context))
        kernel = held.get(_LAUNCHER)
        return original(self, queue, **keywords) if kernel is None else kernel(queue, **keywords)

    return launch


def _launcher(unit: Any, entrypoint: str, holder: Any) -> Any:
    """Return a kernel of an entry point for the context of `holder`, of the unit as it is now; None for loopy."""
    from kcl.cache import layers
    from kcl.errors import RecipeError, UnknownInput
    from kcl.generate.recorded import RecordedOrigin
    from kcl.handle import kernel_of

    if not isinstance(unit.target, sys.modules["loopy"].PyOpenCLTarget) or layers.generator().off(_LOOPY):
        return None
    try:
        made = RecordedOrigin.of_unit(unit, entrypoint)
        with suppress(UnknownInput):  # the executor generates then, as loopy does, without loopy's own caches
            made.key()
        return kernel_of(made, holder)
    except Exception as error:
        loopys: Any = getattr(sys.modules.get("loopy.diagnostic"), "LoopyError", ())
        if not isinstance(error, (RecipeError, loopys)):
            layers.generator().fault("take a unit of loopy", error)
        return None
