"""Programs of binaries, built past pyopencl's wrapper, and device kernels without the code that pyopencl generates.

The constructor of `cl.Kernel` asks `pyopencl.invoker` for two functions, `enqueue` and `set_args`. That module looks in
a dictionary on disk: a third of a millisecond for each kernel. Invokers set arguments and enqueue by themselves. So kcl
wraps the module's function once: every kernel gets two functions that cost nothing, and the generated ones at its first
call. A pyopencl that asks in another way gets its own functions.
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

# The words of pyopencl.
_HINT = "Non-empty compiler output encountered. Set the environment variable PYOPENCL_COMPILER_OUTPUT=1 to see more."
_MODULE, _ASKED = "pyopencl.invoker", "generate_enqueue_and_set_args"
# The function that kcl put in the place of pyopencl's has this attribute.
_OURS = "_kcl_late"
# The keywords with which pyopencl asks, beside name, counts and types.
_FORM = {"devs", "warn_about_arg_count_bug", "work_around_arg_count_bug"}


def of_binaries(
    context: cl.Context,
    devices: Sequence[cl.Device],
    entries: Sequence[Entry],
    text: ProgramText,
    options: BuildOptions,
) -> cl.Program:
    """Build a program of the entries of its devices; raises the driver's error for a binary that it refuses.

    The driver is not asked for a log: with the rest of pyopencl's wrapper that takes a tenth of the time.
    """
    program = cl.Program(context, list(devices), [entry.parts["binary"] for entry in entries])
    # Each new kernel object asks for the source, and fails once inside where it is missing.
    program._source = text.source
    if not built_silently(program, options):
        program.build(options=passed(text.options))
    return program


def built_silently(program: cl.Program, options: BuildOptions) -> bool:
    """Build past pyopencl's wrapper, which asks for a log and composes the options again; return True if that worked.

    Where it failed the caller tries the wrapper: it reports more about a binary that the driver refuses. The function
    below it may be missing from another version of pyopencl, or take other arguments there.
    """
    try:
        program._prg._build(options=options.text.encode("utf-8", "surrogateescape"), devices=None)
    except (cl.Error, AttributeError, TypeError):
        return False
    return True


def kernel_names(program: cl.Program) -> tuple[str, ...]:
    """Return the names of the kernels in a program that is built."""
    return tuple(filter(None, str(program.get_info(cl.program_info.KERNEL_NAMES) or "").split(";")))


def generate_late() -> None:
    """Have pyopencl generate the functions of a kernel when they are first needed, from now on; thread-safe."""
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
    """Return True if pyopencl also checks, for each new kernel, whether its arguments are too large for a device."""
    return "cl_nv_device_attribute_query" in device.extensions


def _functions(generate: Callable[[], Any]) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return functions that do the work of the generated ones until these are needed."""

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
    """Warn with the compiler's messages as pyopencl does after a build from source, but at the line of the program.

    Raises what the user's filters raise. They see pyopencl's module, as without kcl.
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
