"""Launching a recorded unit: directly, or through an executor, as loopy launches its own."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from kcl import foreign
from kcl.base import port
from kcl.errors import UnknownInput
from kcl.frontends.loopy import face, making, moment, recorder, unmade
from kcl.frontends.loopy.plain import loaded
from kcl.frontends.loopy.record import Keywords, Positional, Record, ordered
from kcl.frontends.loopy.result import LoopyResult

_DIRECT = (
    "TranslationUnit.__call__ is uncached as of 2025, meaning it will incur possibly substantial compilation cost with "
    "every invocation. Use TranslationUnit.executor to obtain an object that holds longer-lived caches."
)


def call(unit: Any, arguments: Positional, keywords: Keywords) -> Any:
    """Launch a unit directly; warn as loopy does. The launch costs as much as a kept executor's."""
    record = unmade.record_of(unit)
    if record is None or not is_for_opencl(arguments):
        return unmade.asked(unit, "__call__")(*arguments, **keywords)
    # The warning is loopy's own text and class, so that filters of a program take it.
    category = face.submodule("loopy.diagnostic").DirectCallUncachedWarning
    warnings.warn(_DIRECT, category, stacklevel=3)
    keywords = dict(keywords)
    entrypoint = keywords.pop("entrypoint", None)
    if recorder.is_on():
        return _found(unit, record, arguments[0], entrypoint)(*arguments, **keywords)
    return executor(unit, arguments[:1], entrypoint, {})(*arguments, **keywords)


def executor(unit: Any, arguments: Positional, entrypoint: str | None, keywords: Keywords) -> Any:
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
    """Return the kernel of a unit for a context: that of earlier executors, unless what decides it changed."""
    try:
        chosen = (entrypoint, moment.now(), tuple(foreign.code_variables()))
    except UnknownInput:
        chosen = None
    if chosen is None or record.changed():
        return _kernel(unit, context, entrypoint)
    # No thread locks the record here, since loopy's lock comes before that. Two threads may make the same kernel.
    kernel = record.kernels.get(chosen)
    if kernel is None or not port("kernels").chooser_of(kernel).serves(context):
        kernel = record.kernels[chosen] = _kernel(unit, context, entrypoint)
    return kernel


class Executor:
    """The executor of a recorded unit. For another attribute than its unit and its entry point it makes loopy's own."""

    def __init__(self, unit: Any, context: Any, entrypoint: str | None, kernel: Any = None) -> None:
        self._kcl_unit = unit
        self._kcl_context = context
        self._kcl_entrypoint = entrypoint
        self._kcl_found = kernel
        self._kcl_kernel = self._kcl_first

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        theirs: type = loaded("loopy.target.pyopencl_execution", "PyOpenCLExecutor", type(self))
        return theirs

    def __call__(self, queue: Any, **arguments: Any) -> Any:
        """Launch on `queue`; returns (event, outputs) as loopy's executor does."""
        return self._kcl_kernel(queue, **arguments)

    def _kcl_first(self, queue: Any, **arguments: Any) -> Any:
        """Launch for the first time: loopy generates for what the unit is then, and keeps the code."""
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
        # A copy has no attributes yet: the look-up of one must not come back here for ever.
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
    """Return the unit of an executor for kcl, which does not keep it: a program that reads `t_unit` may."""
    return of._kcl_unit


def _entrypoint(record: Record, context: Any) -> Any:
    """Return the name of the only entry point, which is kept beside the proof; raise loopy's error for another number."""
    if "entrypoint" not in record.facts:
        recorder.learn(record, entrypoint=making.make(record).executor(context).entrypoint)
    return record.facts["entrypoint"]


def is_for_opencl(arguments: Positional) -> bool:
    """Return True if the first of some arguments is a context or a queue."""
    opencl: Any = sys.modules.get("pyopencl")
    return (
        bool(arguments)
        and opencl is not None
        and isinstance(arguments[0], (opencl.Context, opencl.CommandQueue))
    )


def _kernel(unit: Any, context: Any, entrypoint: str | None) -> Any:
    """Return the kernel of a unit; raises loopy's error for an unknown entry point.

    Where its code is stored, the entry point is known.
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
