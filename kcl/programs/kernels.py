"""Makes programs from binaries, and device kernels without the code that pyopencl generates for each of them.

The constructor of `cl.Kernel` asks `pyopencl.invoker` for two functions, `enqueue` and `set_args`. That module looks
them up in a dictionary on disk, which takes a third of a millisecond for each kernel. kcl's invokers do not use them. So
kcl wraps the function that pyopencl asks: a kernel gets two cheap functions, and the generated ones only when they are
first called. A pyopencl that asks with other arguments gets its own functions.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl import foreign
from kcl.base import settings
from kcl.programs.program_key import BuildOptions, passed

if TYPE_CHECKING:
    from kcl.cache.entry import Entry
    from kcl.code import ProgramText

# pyopencl's own text.
_HINT = "Non-empty compiler output encountered. Set the environment variable PYOPENCL_COMPILER_OUTPUT=1 to see more."
_MODULE, _ASKED = "pyopencl.invoker", "generate_enqueue_and_set_args"
# The attribute that marks kcl's wrapper.
_OURS = "_kcl_late"
# The keywords of the known calls, beside name, counts and types.
_FORM = {"devs", "warn_about_arg_count_bug", "work_around_arg_count_bug"}


def of_binaries(
    context: cl.Context,
    devices: Sequence[cl.Device],
    entries: Sequence[Entry],
    text: ProgramText,
    options: BuildOptions,
) -> cl.Program:
    """Make and build a program from the binaries of entries, one for each device.

    Raises the driver's error if it refuses a binary. The driver's log is not read, and pyopencl's wrapper is left out:
    together they would take a tenth of the time.
    """
    program = cl.Program(context, list(devices), [entry.parts["binary"] for entry in entries])
    # Each new `cl.Kernel` reads this attribute, and handles an error inside if it is missing.
    program._source = text.source
    if not built_silently(program, options):
        program.build(options=passed(text.options))
    return program


def built_silently(program: cl.Program, options: BuildOptions) -> bool:
    """Build a program without pyopencl's wrapper; return True if that worked.

    If it fails the caller uses the wrapper, which reports more about a binary that the driver refuses. Another version of
    pyopencl may lack the inner function, or give it other arguments.
    """
    try:
        program._prg._build(options=options.text.encode("utf-8", "surrogateescape"), devices=None)
    except (cl.Error, AttributeError, TypeError):
        return False
    return True


def kernel_names(program: cl.Program) -> tuple[str, ...]:
    """Return the names of the kernels in a built program."""
    try:
        names = program.get_info(cl.program_info.KERNEL_NAMES) or ""
    except cl.LogicError:
        # Intel's answer for a program without a kernel.
        return ()
    return tuple(filter(None, str(names).split(";")))


def generate_late() -> None:
    """From now on have pyopencl generate a kernel's functions only when they are first called. Thread-safe."""
    foreign.import_anyway(_MODULE)
    module = sys.modules[_MODULE]
    generate = getattr(module, _ASKED, None)
    if generate is not None and not hasattr(generate, _OURS):
        # No lock: two threads may wrap the function twice, without effect.
        setattr(module, _ASKED, _late(generate))


def _late(generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def generate_late(*arguments: Any, **keywords: Any) -> Any:
        is_known = len(arguments) == 4 and arguments[3] is None and keywords.keys() == _FORM
        if not is_known or any(map(_is_checked, keywords["devs"])):
            return generate(*arguments, **keywords)
        return _functions(functools.partial(generate, *arguments, **keywords))

    vars(generate_late)[_OURS] = True
    return generate_late


@functools.lru_cache
def _is_checked(device: cl.Device) -> bool:
    """Return True if pyopencl also checks the size of the arguments of each new kernel, as it does for NVIDIA."""
    return "cl_nv_device_attribute_query" in device.extensions


def _functions(generate: Callable[[], Any]) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return cheap stand-ins for the two functions of a kernel; they call `generate` when they are used."""

    def enqueue(kernel: cl.Kernel, *values: Any, **options: Any) -> Any:
        generated = generate()
        kernel._set_enqueue_and_set_args(*generated)
        return generated[0](kernel, *values, **options)

    def set_args(kernel: cl.Kernel, *values: Any) -> None:
        if len(values) != kernel.num_args:
            # This raises pyopencl's own error.
            generate()[1](kernel, *values)
        kernel._set_arg_multi(tuple(itertools.chain.from_iterable(enumerate(values))))

    return enqueue, set_args


def warn(devices: Iterable[cl.Device], logs: Iterable[str]) -> None:
    """Warn with the compiler's messages as pyopencl does after a build, but at the line of the user's program.

    The user's filters see pyopencl's module, as without kcl, and may turn the warning into an error.
    """
    pairs = zip(devices, logs, strict=False)
    messages = [
        f"Build on {device} succeeded, but said:\n\n{log}" for device, log in pairs if log.strip()
    ]
    if messages:
        from pytools import strtobool

        from kcl.cache.faults import warn_the_program

        words = _HINT
        if strtobool(settings.variable("PYOPENCL_COMPILER_OUTPUT") or "False"):
            words = "From-source build succeeded, but resulted in non-empty logs:\n" + (
                75 * "=" + "\n"
            ).join(messages)
        warn_the_program(words, cl.CompilerWarning, cl.__name__)
