"""Source or binary to a built program, with the compiler's messages: the only caller of clBuildProgram."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl.base import settings
from kcl.build.options import BuildOptions, passed
from kcl.cache.layer import warn_the_program

if TYPE_CHECKING:
    from kcl.cache.entry import Entry
    from kcl.code import ProgramText

# the words of pyopencl
_HINT = "Non-empty compiler output encountered. Set the environment variable PYOPENCL_COMPILER_OUTPUT=1 to see more."


def from_source(
    context: cl.Context, text: ProgramText, given: str, mark: str = "", holder: cl.Program | None = None
) -> cl.Program:
    """Build without pyopencl's own cache of binaries, which misses some changes of headers. `warn` shows the messages.

    The driver gets the source as it is `given`. `mark` is a further option, which no message shows. `holder` is the
    user's program that the build is for: it keeps a program that does not compile, as pyopencl does, with the reason.
    Raises pyopencl's own error where the source does not compile.
    """
    from pyopencl.characterize import has_src_build_cache

    raw = cl._cl._Program(context, given)
    program = _with_source(cl.Program(raw), text)
    if holder is not None:
        holder._prg = raw
    options, _path = program._process_build_options(context, passed(text.options))
    marked, _path = program._process_build_options(context, [*passed(text.options), *([mark] if mark else [])])
    # With a raw program pyopencl builds and reports as usual, past its cache; where that would serve, it reports more.
    is_uncached = has_src_build_cache(context.devices[0])
    program._build_and_catch_errors(
        lambda: _built(raw, marked), options_bytes=options, source=None if is_uncached else text.source
    )
    return program


class _Failed:
    """A program whose build failed, for the function of pyopencl that words the error with the compiler's messages."""

    def __init__(self, program: Any, error: cl.Error) -> None:
        self._program = program
        self._error = error

    def _build(self, **_options: object) -> None:
        raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


def _built(raw: Any, options: bytes) -> Any:
    """Build, and show no message of the compiler; raises the error that pyopencl's own function would raise."""
    build = type(raw).build
    if not hasattr(raw, "_build"):  # another version of pyopencl
        return build(raw, options)
    try:
        raw._build(options=options, devices=None)
    except cl.Error as error:
        failed = _Failed(raw, error)
    else:
        return raw
    return build(failed, options)


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
    if not built_silently(_with_source(program, text), options):
        program.build(options=passed(text.options))
    return program


def _with_source(program: cl.Program, text: ProgramText) -> cl.Program:
    """Tell pyopencl the source: each new kernel object asks for it, and fails once inside where it is missing."""
    program._source = text.source
    return program


def built_silently(program: cl.Program, options: BuildOptions) -> bool:
    """Build past pyopencl's wrapper, which asks for a log and composes the options again; tell whether that worked.

    Where it failed the caller tries the wrapper: it reports more about a binary that the driver refuses. The function
    below it may be missing from another version of pyopencl, or take other arguments there.
    """
    build = getattr(getattr(program, "_prg", None), "_build", None)
    if build is None:
        return False
    try:
        build(options=options.text.encode("utf-8", "surrogateescape"), devices=None)
    except (cl.Error, TypeError):
        return False
    return True


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


def kernel_names(program: cl.Program) -> tuple[str, ...]:
    """Return the names of the kernels in a program that is built."""
    return tuple(filter(None, str(program.get_info(cl.program_info.KERNEL_NAMES) or "").split(";")))


def logs(program: cl.Program) -> list[str]:
    """Return the compiler's log of a program, for each of its devices."""
    found = []
    for device in program.get_info(cl.program_info.DEVICES):
        try:
            found.append(str(program.get_build_info(device, cl.program_build_info.LOG) or ""))
        except cl.Error:
            found.append("")
    return found
