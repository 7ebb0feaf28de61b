"""Builds a user's pyopencl program through the binary layer. Imported when the first program is built."""

from __future__ import annotations

import re
import shlex
import time
from typing import Any

import pyopencl as cl

from kcl import drivers
from kcl.cache import layers
from kcl.cache.faults import line_of_the_program
from kcl.cache.lead import Lead
from kcl.cache.lookup import obtain
from kcl.code import ProgramText
from kcl.errors import CacheFault, CacheMiss, SettingError
from kcl.integrations import SERVED
from kcl.programs.program_key import first_kernel, passed
from kcl.programs.stage import Build, BuildRequest, BuiltProgram, build_of, is_current

# A macro that stands for `kernel`, and its uses: `KERNEL REQD(64, 1, 1) void scan(` or `KERNEL(scan)`.
_DEFINED = r"define[ \t]+(\w+)(?:\([^)\n]*\))?[ \t][^\n]*kernel\b"
_BEHIND = r"^[ \t]*{}(?:(?:\s|\w+\s*\([^()]*\))+void\s+(\w+)|\(\s*(\w+))"

_OPENCL = frozenset({"opencl"})
# The attribute of a user's context that keeps its Build alive.
_BUILD = "_kcl_build"


def _is_new(program: Any, devices: Any) -> bool:
    """Return True if a program was made from source, was not built or inspected yet, and is for all its devices."""
    # pyopencl sets `_prg` once a program is built or inspected, and `_source` only for a program from source.
    names = vars(program)
    if (
        names.get("_prg", program) is not None
        or "_source" not in names
        or layers.binary().off(_OPENCL)
    ):
        return False
    context = names["_context"]
    if getattr(context, "cache_dir", None) is not None:
        return False
    return devices is None or list(devices) == list(context.devices)


def source_of(program: Any) -> Any:
    """Return the source of a user's program as text."""
    source = program._source
    return source.decode("utf-8") if isinstance(source, bytes) else source


def _read_text(program: Any, options: Any) -> ProgramText | None:
    """Return source and options of a program as a ProgramText; None if pyopencl must handle them."""
    try:
        source = source_of(program)
        source.encode("utf-8")
        words = tuple(shlex.split(options) if isinstance(options, str) else options or ())
    except (AttributeError, TypeError, UnicodeError, ValueError):
        return None
    # Left to pyopencl: a program without a kernel, about which some drivers answer no questions, and an include directory
    # with a blank, which pyopencl refuses and kcl would quote.
    if (
        not ("kernel" in source or "#" in source)
        or not all(isinstance(word, str) for word in words)
        or passed(words) != [*words]
    ):
        return None
    return ProgramText(_find_kernel(source, words) or "program", source, words, ())


def _find_kernel(source: str, options: tuple[str, ...]) -> str:
    """Return the name of the first kernel; empty if none is found. If the name is a macro, return its definition.

    Other kernels are not counted here, since the preprocessor may leave some out: the entry has their number.
    """
    name = _find_behind_a_macro(source) or first_kernel(source)
    after = source.find(f"define {name} ")
    words = [word.partition("=")[2] for word in options if word.startswith(f"-D{name}=")]
    words += source[after : after + 200].split(None, 3)[2:3] if name and after >= 0 else []
    return next((word for word in words if word.isidentifier()), name)


def _find_behind_a_macro(source: str) -> str:
    """Return the name of the first kernel that is declared by a macro, as in pyopencl's scans; empty for none."""
    for macro in re.findall(_DEFINED, source):
        if match := re.search(_BEHIND.format(macro), source, re.MULTILINE):
            return match[1] or match[2]
    return ""


def _describe_place(text: ProgramText) -> dict[str, str]:
    """Return, as keys, the line of the user's program that builds the text, and its build options; for display."""
    words = f" {' '.join(text.options)}".replace(" -D ", " -D").split(" -")[1:]
    options = [f"-{word[:60]}" for word in words if not word.startswith("I")]
    return dict.fromkeys([line_of_the_program(), *options], "")


def serve(program: Any, words: Any, devices: Any) -> BuiltProgram | None:
    """Build a user's program through the binary layer; return None if pyopencl must build it.

    Raises pyopencl's own error if the source does not compile, and the errors of `KCL_STRICT`.
    """
    text = _read_text(program, words) if _is_new(program, devices) else None
    if text is None:
        return None
    started = time.perf_counter()
    try:
        build = _find_stage(program._context)
        options, _path = program._process_build_options(program._context, text.options)
        where = _describe_place(text)
        with Lead(text.kernel, where, str) as lead:
            built: BuiltProgram = obtain(
                build, BuildRequest(text, program, next(iter(where))), lead
            )
    except Exception as error:
        if isinstance(error, cl.Error) and program._prg is not None:
            # The source does not compile: the user gets pyopencl's own error.
            setattr(program, SERVED, None)
            raise
        # pyopencl builds the program from its source, as if nothing had been tried.
        program._prg = None
        if isinstance(error, (CacheMiss, CacheFault, SettingError)):
            raise
        layers.binary().fault("build a program", error)
        return None
    setattr(program, SERVED, (built, options.decode("utf-8")))
    program._prg = built.program._get_prg()
    how = (
        "cache retrieval" if built.is_stored else "source build resulting from a binary cache miss"
    )
    program._build_duration_info = (how, built.is_stored, time.perf_counter() - started)
    return built


def _find_stage(context: cl.Context) -> Build:
    """Return the Build of a user's context; it does not keep the user's context object alive."""
    stage: Build | None = getattr(context, _BUILD, None)
    if stage is None or not is_current(stage):
        stage = vars(context)[_BUILD] = build_of(context, drivers.of)
    return stage
