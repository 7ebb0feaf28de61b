"""Source or binary to a built program, with the compiler's messages: the only caller of clBuildProgram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyopencl as cl

from kcl.build.options import BuildOptions, passed

if TYPE_CHECKING:
    from kcl.cache.entry import Entry
    from kcl.code import ProgramText


def from_source(context: cl.Context, text: ProgramText, mark: str = "", holder: cl.Program | None = None) -> cl.Program:
    """Build without pyopencl's own cache of binaries, which misses some changes of headers.

    `mark` is a further option. `holder` is the user's program that the build is for: it keeps a program that does not
    compile, as pyopencl does, with the reason. Raises pyopencl's own error where the source does not compile.
    """
    from pyopencl.characterize import has_src_build_cache

    from kcl.cache.patience import Turn

    raw = cl._cl._Program(context, text.source)
    program = _with_source(cl.Program(raw), text)
    if holder is not None:
        holder._prg = raw
    options, _path = program._process_build_options(context, [*passed(text.options), *([mark] if mark else [])])
    # With a raw program pyopencl builds and reports as usual, past its cache; where that would serve, it reports more.
    is_uncached = has_src_build_cache(context.devices[0])
    with Turn("compiler"):
        program._build_and_catch_errors(
            lambda: raw.build(options), options_bytes=options, source=None if is_uncached else text.source
        )
    return program


def of_binaries(context: cl.Context, devices: Sequence[cl.Device], entries: Sequence[Entry]) -> cl.Program:
    """Make a program of the entries of its devices, for `finish`; raises the driver's errors."""
    return cl.Program(context, list(devices), [entry.parts["binary"] for entry in entries])


def finish(
    program: cl.Program,
    text: ProgramText,
    entries: Sequence[Entry],
    silent: BuildOptions | None = None,
    is_built: bool = False,
) -> None:
    """Build a program that `of_binaries` made; raises the driver's error for a binary that it refuses.

    Warns with the compiler messages of its source build. `silent` are the options as a driver takes them that reports
    no more about a binary than about its source. This driver is not asked for a log: with the rest of pyopencl's
    wrapper that takes a tenth of the time. A program that `is_built` was built in that way.
    """
    _with_source(program, text)
    if is_built or (silent is not None and built_silently(program, silent)):
        said = [""] * len(entries)
    else:
        program.build(options=passed(text.options))
        said = logs(program) if any(_log(entry) for entry in entries) else []
    _replay_logs(entries, said)


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


def _replay_logs(entries: Sequence[Entry], said: Sequence[str]) -> None:
    """Warn with the compiler messages of the time when the binary was made, as pyopencl does after a source build."""
    # A driver may report something about a binary too, but not its messages about the source.
    unsaid = [log for entry, known in zip(entries, said, strict=False) if (log := _log(entry)).strip() not in known]
    for log in dict.fromkeys(unsaid):
        cl.compiler_output(f"From-source build succeeded, but resulted in non-empty logs:\n{log}")


def _log(entry: Entry) -> str:
    return entry.parts.get("build.log", b"").decode("utf-8", "replace")


def kernel_names(program: cl.Program) -> tuple[str, ...]:
    """Return the names of the kernels in a program that is built."""
    names = str(program.get_info(cl.program_info.KERNEL_NAMES) or "")
    return tuple(name for name in names.split(";") if name)


def logs(program: cl.Program) -> list[str]:
    """Return the compiler's log of a program, for each of its devices."""
    found = []
    for device in program.get_info(cl.program_info.DEVICES):
        try:
            found.append(str(program.get_build_info(device, cl.program_build_info.LOG) or ""))
        except cl.Error:
            found.append("")
    return found
