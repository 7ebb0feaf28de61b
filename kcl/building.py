"""Source or binary to a built program: the only caller of clBuildProgram, and what the compiler said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyopencl as cl

from kcl.buildoptions import BuildOptions, passed

if TYPE_CHECKING:
    from kcl.entry import Entry
    from kcl.generated import Generated


def from_source(context: cl.Context, generated: Generated, mark: str = "") -> cl.Program:
    """Build without pyopencl's own cache of binaries, which misses some changes of headers.

    `mark` is a further option. Raises pyopencl's own error where the source does not compile.
    """
    options = [*passed(generated.options), *([mark] if mark else [])]
    try:
        # With a raw program in its hands pyopencl's wrapper builds and reports as usual, past its cache.
        return cl.Program(cl._cl._Program(context, generated.source)).build(options=options)
    except cl.Error:
        # pyopencl's ordinary way says more about a failure. Should it succeed, its cache did, and that is not trusted.
        cl.Program(context, generated.source).build(options=options)
        raise


def from_binaries(
    context: cl.Context,
    generated: Generated,
    devices: Sequence[cl.Device],
    entries: Sequence[Entry],
    silent: BuildOptions | None = None,
) -> cl.Program:
    """Make a program of the entries of its devices; raises what the driver raises for a binary that it does not take.

    Warns about what the compiler said when they were made. `silent` are the options as a driver takes them that says
    nothing about a binary: it is not asked then, which with the rest of pyopencl's wrapper is a tenth of the time.
    """
    program = cl.Program(context, list(devices), [entry.parts["binary"] for entry in entries])
    build = getattr(program._prg, "_build", None)
    if silent is not None and build is not None:
        build(options=silent.text.encode("utf-8", "surrogateescape"), devices=None)
    else:
        program.build(options=passed(generated.options))
    _replay_logs(program, entries)
    return program


def _replay_logs(program: cl.Program, entries: Sequence[Entry]) -> None:
    """Warn about what the compiler said when the binary was made, as pyopencl does after a build from source."""
    if not any(entry.parts.get("build.log", b"").strip() for entry in entries):
        return
    for entry, said in zip(entries, logs(program), strict=False):
        log = entry.parts.get("build.log", b"").decode("utf-8", "replace")
        # A driver may have something to say about a binary too, but not what it said about the source.
        if log.strip() not in said:
            cl.compiler_output(f"From-source build succeeded, but resulted in non-empty logs:\n{log}")


def logs(program: cl.Program) -> list[str]:
    """Return what the compiler says of a program, for each of its devices."""
    found = []
    for device in program.get_info(cl.program_info.DEVICES):
        try:
            found.append(str(program.get_build_info(device, cl.program_build_info.LOG) or ""))
        except cl.Error:
            found.append("")
    return found
