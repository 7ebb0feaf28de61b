"""The work of a Kernel's methods other than a launch: `source`, `key`, `explain`, `prepare`, `bind`.

A program that only launches does not import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from kcl.base import port, settings
from kcl.cache import layers
from kcl.cache.lookup import find
from kcl.errors import UnknownInput
from kcl.generate.stage import CallValues
from kcl.launch import ARRAYS, refusals
from kcl.line import bindings_of

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.cache.key import Key
    from kcl.choices.tuning.chooser import Chooser
    from kcl.code import LaunchableCode
    from kcl.launch import Launcher
    from kcl.line import Line

Holder: TypeAlias = "cl.Context | cl.CommandQueue"


def find_code(
    chooser: Chooser, holder: Holder, values: dict[str, Any]
) -> tuple[Line, LaunchableCode]:
    """Return the line and the code for dtypes and sizes by name; raises TypeError if they do not fit the kernel."""
    line, _why = chooser.asked(holder, values)
    with line.lead() as lead:
        if not values:
            return line, line.code(holder, CallValues(values), lead)
        refusals.refuse_unknown_dtypes(chooser.name, values)
        code = line.code(holder, CallValues(values), lead)
        values = line.drop_sizes(values, is_new=True)
        if not line.packed:
            invoker = code.code.invoker
            is_opencl = invoker.front_end == "opencl"
            refusals.refuse_misfits(chooser.name, values, invoker.arguments, is_opencl)
        return line, code


def prepare(chooser: Chooser, holder: Holder, values: dict[str, Any]) -> Launcher:
    """Return the launcher for dtypes and sizes by name."""
    line, code = find_code(chooser, holder, values)
    with line.lead() as lead:
        return line.launcher(holder, code, lead)


def find_keys(chooser: Chooser, holder: Holder, values: dict[str, Any]) -> dict[str, Key | None]:
    """Return the key in each layer for the first device; None if it is unknown."""
    line, code = find_code(chooser, holder, values)
    try:
        slots = bindings_of(holder).build.slots(code.code.text)
    except UnknownInput:
        slots = []
    return {
        settings.GENERATOR: line.generate.key(),
        settings.BINARY: slots[0].key if slots else None,
    }


def explain(chooser: Chooser, holder: Holder, values: dict[str, Any]) -> str:
    """Say what each layer holds now and why."""
    refusals.refuse_unknown_dtypes(chooser.name, values)
    line, why = chooser.asked(holder, values)
    lines = port("present").lines(
        chooser.name, line.generate, CallValues(values), lambda: bindings_of(holder).build
    )
    # Called last: only now the recipe has run and read its sizes.
    return "\n".join([*lines, *why()])


def are_stored(chooser: Chooser, holder: Holder, values: dict[str, Any]) -> bool:
    """Return True if both layers hold the code for these arguments. Runs the recipe; no look-up is counted."""
    line, _why = chooser.asked(holder, values)
    look = find(line.generate, CallValues(values))
    if look.outcome != "hit":
        return False
    slots = bindings_of(holder).build.slots(look.value.code.text)
    return all(layers.binary().look_up(slot.address, slot.key).entry is not None for slot in slots)


def bind(
    line: Line,
    queue: cl.CommandQueue,
    example: dict[str, Any],
    refused: Callable[[Exception, Mapping[str, Any]], Exception | None],
) -> Callable[..., cl.Event]:
    """Return a function that launches a line with arguments like the example; `refused` rewords its errors."""
    from pyopencl.array import Array

    from kcl.launch import replay

    with line.lead() as lead:
        code = line.code(queue, CallValues(example), lead)
        arguments = line.drop_sizes(example, is_new=True)
        arrays = [
            argument.name for argument in code.code.invoker.arguments if argument.kind in ARRAYS
        ]
        names = ", ".join(name for name in arrays if not isinstance(arguments.get(name), Array))
        if names:
            words = "bind takes every array, on the device, and these are not"
            raise TypeError(f"kernel {line.name!r}: {words}: {names}")
        launcher = line.launcher(queue, code, lead)
        launcher.program.note_call(launcher, arguments)
        launch = replay.bind(launcher, queue, arguments, refused)
        return (
            launch
            if len(arguments) == len(example)
            else lambda **values: launch(**line.drop_sizes(values))
        )
