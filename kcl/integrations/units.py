"""loopy's units through the layers of kcl: what launching one does while the integrations are installed.

The program's own modules get the face of loopy where they import it from now on; where they have loopy itself, their
calls are recorded at its functions. Libraries have loopy itself, and their units are made: such a unit is looked up by
its content as it is launched, through `unit(queue, ...)` or an executor of loopy's own.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from kcl.record import imports

NEEDED = ("TranslationUnit.executor", "TranslationUnit.__call__")

_LOOPY = frozenset({"loopy"})
_KERNELS = "_kcl_kernels"  # on a unit: the kernels of its entry points


class Kernels:
    """The kernels of a unit by entry point, None for one that is loopy's to launch; a copy of a unit has none."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def __reduce__(self) -> Any:
        return Kernels, ()


def installed(row: Any) -> None:
    """Give the program's own modules the face, and record their calls where they have loopy itself."""
    imports.install(for_good=False)
    imports.record_own(lambda: _is_known_version(row))


def uninstalled() -> None:
    """Leave them alone."""
    imports.record_own(None)


def _is_known_version(row: Any) -> bool:
    from kcl import integrations
    from kcl.record.callables import distributions

    version = distributions.counted("loopy").partition(" ")[0]
    if not row.knows(version):
        integrations.refuse(row, ImportError(f"loopy {version} is not known to this kcl"))
    return bool(row.knows(version))


def replacements(package: Any) -> list[tuple[Any, str, Any]]:
    """Return what takes the place of loopy's functions: (holder, name, value)."""
    from kcl.inspect import report

    report.at_exit()
    imports.watch()
    executor = importlib.import_module("loopy.target.pyopencl_execution").PyOpenCLExecutor
    return [
        (package.TranslationUnit, "__call__", _direct(package.TranslationUnit.__call__)),
        (executor, "__call__", _launch(executor, executor.__call__)),
    ]


def _direct(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        entrypoint: Any = keywords.get("entrypoint")
        if entrypoint is None and len(self.entrypoints) == 1:
            (entrypoint,) = self.entrypoints
        kernel = _kernel(self, entrypoint) if len(arguments) == 1 and entrypoint in self.entrypoints else None
        if kernel is None:
            return original(self, *arguments, **keywords)
        from kcl.integrations import executor

        executor.warn_of_direct_call(2)  # this function does not count
        keywords.pop("entrypoint", None)
        return kernel(*arguments, **keywords)

    # loopy's warning names the line of the caller: frames of Python's importing are not counted, and this is one.
    imports.uncounted(call)
    return call


def _launch(kind: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def launch(self: Any, queue: Any, **keywords: Any) -> Any:
        kernel = _kernel(self.t_unit, self.entrypoint) if type(self) is kind else None
        return original(self, queue, **keywords) if kernel is None else kernel(queue, **keywords)

    return launch


def _kernel(unit: Any, entrypoint: str) -> Any:
    """Return the kernel of an entry point, None where loopy is to launch it."""
    names = vars(unit)
    kernels = names.get(_KERNELS)
    if kernels is None:
        kernels = names.setdefault(_KERNELS, Kernels())
    try:
        return kernels.found[entrypoint]
    except KeyError:
        return kernels.found.setdefault(entrypoint, _new(unit, entrypoint))


def _new(unit: Any, entrypoint: str) -> Any:
    from kcl.cache import layers
    from kcl.generate.origins.recorded import Recorded
    from kcl.handle import kernel_of

    if not isinstance(unit.target, sys.modules["loopy"].PyOpenCLTarget) or layers.generator().off(_LOOPY):
        return None
    try:
        made = Recorded.of_unit(unit, entrypoint)
        made.key()
    except Exception as error:
        if not _is_known(error):
            layers.generator().fault("take a unit of loopy", error)
        return None
    return kernel_of(made)


def _is_known(error: Exception) -> bool:
    from kcl.errors import RecipeError, UnknownInput

    loopys: Any = getattr(sys.modules.get("loopy.diagnostic"), "LoopyError", ())
    return isinstance(error, (RecipeError, UnknownInput, loopys))
