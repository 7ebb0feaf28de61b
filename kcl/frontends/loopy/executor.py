"""Launches a recorded unit, directly or by an executor, as loopy launches its own units."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from kcl import foreign
from kcl.base import port
from kcl.errors import UnknownInput
from kcl.frontends.loopy import face, making, moment, recorder, unmade
from kcl.frontends.loopy.record import Record, ordered
from kcl.frontends.loopy.result import LoopyResult

_DIRECT = (
    "TranslationUnit.__call__ is uncached as of 2025, meaning it will incur possibly substantial compilation cost with "
    "every invocation. Use TranslationUnit.executor to obtain an object that holds longer-lived caches."
)


def call(unit: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Launch a unit directly, with loopy's warning, although it costs no more than a kept executor."""
    record = unmade.record_of(unit)
    if record is None or not is_for_opencl(arguments):
        return unmade.asked(unit, "__call__")(*arguments, **keywords)
    # loopy's own text and class, so that the program's filters apply.
    category = face.submodule("loopy.diagnostic").DirectCallUncachedWarning
    warnings.warn(_DIRECT, category, stacklevel=3)
    keywords = dict(keywords)
    entrypoint = keywords.pop("entrypoint", None)
    if recorder.is_on():
        return _found(unit, record, arguments[0], entrypoint)(*arguments, **keywords)
    return executor(unit, arguments[:1], entrypoint, {})(*arguments, **keywords)


def executor(
    unit: Any, arguments: tuple[Any, ...], entrypoint: str | None, keywords: dict[str, Any]
) -> Any:
    """Return the executor of a unit on a context or queue."""
    record = unmade.record_of(unit)
    if (
        record is None
        or keywords
        or len(arguments) != 1
        or not is_for_opencl(arguments)
        or not recorder.is_on()
    ):
        return unmade.asked(unit, "executor").executor(
            *arguments, entrypoint=entrypoint, **keywords
        )
    return Executor(unit, arguments[0], entrypoint, _found(unit, record, arguments[0], entrypoint))


def _found(unit: Any, record: Record, context: Any, entrypoint: str | None) -> Any:
    """Return the Kernel of a unit for a context; that of an earlier executor if nothing that decides it has changed."""
    try:
        chosen = (entrypoint, moment.now(), tuple(foreign.code_variables()))
    except UnknownInput:
        chosen = None
    if chosen is None or record.changed():
        return _kernel(unit, context, entrypoint)
    # Without a lock, which would have to be taken after loopy's: two threads may make the same Kernel.
    kernel = record.kernels.get(chosen)
    if kernel is None or not port("kernels").chooser_of(kernel).serves(context):
        kernel = record.kernels[chosen] = _kernel(unit, context, entrypoint)
    return kernel


class Executor:
    """The executor of a recorded unit. It has `t_unit` and `entrypoint`; for other attributes loopy's own is made."""

    def __init__(self, unit: Any, context: Any, entrypoint: str | None, kernel: Any = None) -> None:
        self._kcl_unit = unit
        self._kcl_context = context
        self._kcl_entrypoint = entrypoint
        self._kcl_found = kernel
        self._kcl_kernel = self._kcl_first

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        module = sys.modules.get("loopy.target.pyopencl_execution")
        theirs: type = getattr(module, "PyOpenCLExecutor", type(self))
        return theirs

    def __call__(self, queue: Any, **arguments: Any) -> Any:
        """Launch on `queue`; returns (event, outputs) as loopy's executor does."""
        return self._kcl_kernel(queue, **arguments)

    def _kcl_first(self, queue: Any, **arguments: Any) -> Any:
        """Launch for the first time. As in loopy, the unit's present content decides the code, which is kept then."""
        unit, context = self._kcl_unit, self._kcl_context
        record, kernel = unmade.record_of(unit), self._kcl_found
        if record is None:
            entrypoint = self._kcl_entrypoint or next(iter(unit.entrypoints))
            kernel = port("kernels").kernel_of(LoopyResult.of_unit(unit, entrypoint), context)
        elif kernel is None or record.changed():
            kernel = _found(unit, record, context, self._kcl_entrypoint)
        self._kcl_kernel = kernel
        return kernel(queue, **arguments)

    def __getattr__(self, name: str) -> Any:
        # While an executor is copied it has no attributes yet: without this line the look-up would recurse for ever.
        if name.startswith("_kcl"):
            raise AttributeError(name)
        record = unmade.record_of(self._kcl_unit)
        if name == "t_unit":
            for source in ordered(record, lambda record: record.inputs) if record else ():
                source.hand_out()
            return self._kcl_unit
        if name == "entrypoint" and record is not None:
            return self._kcl_entrypoint or _entrypoint(record, self._kcl_context)
        own = self.__dict__.get("_kcl_own")
        if own is None:
            unit = unmade.asked(self._kcl_unit, name)
            own = self._kcl_own = unit.executor(self._kcl_context, entrypoint=self._kcl_entrypoint)
        return getattr(own, name)


def unit_of(of: Executor) -> Any:
    """Return the unit of an executor, for kcl's own use: unlike `t_unit` it does not count as handed to the program."""
    return of._kcl_unit


def _entrypoint(record: Record, context: Any) -> Any:
    """Return the name of the only entry point, from the record's facts; loopy raises its error if there is not one."""
    if "entrypoint" not in record.facts:
        recorder.learn(record, entrypoint=making.make(record).executor(context).entrypoint)
    return record.facts["entrypoint"]


def is_for_opencl(arguments: tuple[Any, ...]) -> bool:
    """Return True if the first argument is a pyopencl context or queue."""
    opencl: Any = sys.modules.get("pyopencl")
    return (
        bool(arguments)
        and opencl is not None
        and isinstance(arguments[0], (opencl.Context, opencl.CommandQueue))
    )


def _kernel(unit: Any, context: Any, entrypoint: str | None) -> Any:
    """Return the Kernel of a unit; raises loopy's error for an unknown entry point.

    If the code is stored, the entry point was valid, and loopy is not asked.
    """
    record = unmade.record_of(unit)
    assert record is not None
    kernel = port("kernels").kernel_of(LoopyResult.of_record(record, entrypoint), context)
    if record.is_made or not kernel.is_stored():
        own = making.make(record)
        if entrypoint not in own.entrypoints and (
            entrypoint is not None or len(own.entrypoints) != 1
        ):
            own.executor(context, entrypoint=entrypoint)
    return kernel
