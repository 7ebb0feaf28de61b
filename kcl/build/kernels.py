"""Programs of binaries, built past pyopencl's wrapper, and device kernels without the code that pyopencl generates.

The constructor of `cl.Kernel` asks `pyopencl.invoker` for two functions, `enqueue` and `set_args`. That module looks in
a dictionary on disk: a third of a millisecond for each kernel. Invokers set arguments and enqueue by themselves. So
while a thread makes a kernel for an invoker, the module answers that thread with two functions that cost nothing. A
pyopencl that does not ask, or asks in another way, gets its own functions.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl import caches
from kcl.base import process, settings
from kcl.build.options import BuildOptions, passed
from kcl.cache.layer import warn_the_program

if TYPE_CHECKING:
    from kcl.cache.entry import Entry
    from kcl.code import ProgramText

# the words of pyopencl
_HINT = "Non-empty compiler output encountered. Set the environment variable PYOPENCL_COMPILER_OUTPUT=1 to see more."
_MODULE, _ASKED = "pyopencl.invoker", "generate_enqueue_and_set_args"
_FORM = {"devs", "warn_about_arg_count_bug", "work_around_arg_count_bug"}  # beside name, counts and types


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
    if not built_silently(with_source(program, text), options):
        program.build(options=passed(text.options))
    return program


def with_source(program: cl.Program, text: ProgramText) -> cl.Program:
    """Tell pyopencl the source: each new kernel object asks for it, and fails once inside where it is missing."""
    program._source = text.source
    return program


def built_silently(program: cl.Program, options: BuildOptions) -> bool:
    """Build past pyopencl's wrapper, which asks for a log and composes the options again; tell whether that worked.

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


def new_kernel(program: cl.Program, name: str) -> cl.Kernel:
    """Return a new kernel object of a program, to be launched by an invoker; raises the errors of `cl.Kernel`."""
    caches.import_anyway(_MODULE)
    asked = sys.modules[_MODULE]
    # One thread at a time, so that each puts back the function that it found. A signal handler or a finaliser may make
    # a kernel in the same thread in between.
    with _state().lock:
        try:
            original = _original(asked)
            if original is not None:
                setattr(asked, _ASKED, _Answer(original))
            return cl.Kernel(program, name)
        finally:
            _put_back(asked)


class _Answer:
    """The answer of the module: this thread, if it asks in the known form, gets other functions than the module's."""

    __slots__ = ("_thread", "original")

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self._thread = get_ident()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        is_known = len(arguments) == 4 and arguments[3] is None and keywords.keys() == _FORM
        if get_ident() != self._thread or not is_known:
            return self.original(*arguments, **keywords)
        return _functions(self.original, arguments, keywords)


def _original(asked: ModuleType) -> Callable[..., Any] | None:
    """Return the module's own function, also where an interrupted call has left kcl's answer in its place.

    None where the module has no such function.
    """
    found = vars(asked).get(_ASKED)
    return found.original if isinstance(found, _Answer) else found


def _put_back(asked: ModuleType) -> None:
    found = vars(asked).get(_ASKED)
    if isinstance(found, _Answer):
        setattr(asked, _ASKED, found.original)


def _functions(
    generate: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return functions that do the work of the generated ones, which are generated only where they are needed."""
    generated = functools.cache(functools.partial(generate, *arguments, **keywords))

    def enqueue(kernel: cl.Kernel, *values: Any, **options: Any) -> Any:
        return generated()[0](kernel, *values, **options)

    def set_args(kernel: cl.Kernel, *values: Any) -> None:
        if len(values) != kernel.num_args:
            generated()[1](kernel, *values)  # raises pyopencl's own error
        kernel._set_arg_multi(tuple(itertools.chain.from_iterable(enumerate(values))))

    return enqueue, set_args


class State(process.LockedState):
    """The lock of pyopencl's module, and the answers that a thread may have left there."""

    def after_fork(self) -> None:
        """Put back the functions that a thread of the parent has left replaced."""
        super().after_fork()
        _put_back(sys.modules.get(_MODULE) or cl)


_state = process.shared(State)


def warn(devices: Iterable[cl.Device], logs: Iterable[str]) -> None:
    """Warn with the compiler's messages as pyopencl does after a build from source, but at the line of the program.

    Raises what the user's filters raise. They see pyopencl's module, as without kcl.
    """
    pairs = zip(devices, logs, strict=False)
    said = [f"Build on {device} succeeded, but said:\n\n{log}" for device, log in pairs if log.strip()]
    if said:
        from pytools import strtobool

        words = _HINT
        if strtobool(settings.variable("PYOPENCL_COMPILER_OUTPUT") or "False"):
            words = "From-source build succeeded, but resulted in non-empty logs:\n" + (75 * "=" + "\n").join(said)
        warn_the_program(words, cl.CompilerWarning, cl.__name__)
