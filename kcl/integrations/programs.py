"""pyopencl's programs through the binary layer: `BuiltProgram.build` while the integrations are installed.

The second stage of the line builds a program that was made of a source text and not inspected before its build.
pyopencl itself serves any other program and any other way to build: binaries, intermediate language, compile and link,
some of the devices of a context, a cache directory that the program chose.
"""

from __future__ import annotations

import functools
import re
import shlex
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pyopencl as cl

from kcl import caches, drivers
from kcl.base import events
from kcl.build.program_key import first_kernel, passed
from kcl.build.stage import Build, BuildRequest, BuiltProgram, build_of, is_current
from kcl.cache import layers
from kcl.cache.layer import line_of_the_program, warn_once
from kcl.cache.lead import Lead
from kcl.cache.lookup import obtain
from kcl.code import ProgramText
from kcl.errors import CacheFault, CacheMiss, SettingError

NEEDED = (
    "Program.build",
    "Program.get_info",
    "Program.get_build_info",
    "Program.source",
    "Program._build_and_catch_errors",
    "Program._process_build_options",
    "Program._get_prg",
    "_cl._Program",
)

# a macro that stands for the word `kernel`, and what stands behind it: `KERNEL REQD(64, 1, 1) void scan(`, `KERNEL(scan)`
_DEFINED = r"define[ \t]+(\w+)(?:\([^)\n]*\))?[ \t][^\n]*kernel\b"
_BEHIND = r"^[ \t]*{}(?:(?:\s|\w+\s*\([^()]*\))+void\s+(\w+)|\(\s*(\w+))"

_OPENCL = frozenset({"opencl"})
_BUILD = "_kcl_build"  # on a context: its second stage lives as long as the context
_SERVED = (
    "_kcl_served"  # on a program: the ServedProgram that kcl gave it, None if the build failed
)


class ServedProgram(NamedTuple):
    """The content of a served program: kcl's own program, and the options as the driver gets them."""

    program: BuiltProgram
    options: str


def replacements(package: Any) -> list[tuple[Any, str, Any]]:
    """Return the replacements of pyopencl's functions: (holder, name, value).

    pyopencl has just been imported, and no platform was asked for: PoCL gets a cache that it can use.
    """
    events.listen()
    if said := caches.provide_pocl():
        warn_once(said, said)
    program = package.Program
    return [
        (program, "build", _build(program.build)),
        (program, "get_info", _get_info(program.get_info)),
        (program, "get_build_info", _get_build_info(program.get_build_info)),
        (program, "source", _source_of(program.source)),
    ]


def _source_of(original: property) -> property:
    @functools.wraps(original.fget)  # type: ignore[arg-type]
    def source(self: Any) -> Any:
        return self.get_info(cl.program_info.SOURCE)

    return property(source)


def _build(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def build(self: Any, options: Any = None, devices: Any = None, cache_dir: Any = None) -> Any:
        if _SERVED in vars(self):
            delattr(self, _SERVED)
            self._prg = None  # it may be made of a binary, which takes no other options
        text = _text(self, options) if cache_dir is None and _is_new(self, devices) else None
        try:
            found = None if text is None else _serve(self, text)
        except Exception as error:
            raise error.with_traceback(None)  # noqa: B904 - the user's frames are added, and kcl's are not shown
        if found is None:
            original(self, options, devices, cache_dir)
        else:
            found.warn()
        return self

    return build


def _get_info(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_info(self: Any, arg: Any) -> Any:
        if _SERVED in vars(self) and arg == cl.program_info.SOURCE:
            return _source(self)
        return original(self, arg)

    return get_info


def _get_build_info(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_build_info(self: Any, *arguments: Any, **keywords: Any) -> Any:
        served: ServedProgram | None = vars(self).get(_SERVED)
        if served is None or keywords or len(arguments) != 2:
            return original(self, *arguments, **keywords)
        device, asked = arguments
        if asked == cl.program_build_info.OPTIONS:
            return served.options
        found = original(self, device, asked)
        if asked == cl.program_build_info.LOG and served.program.logs:
            devices = [one for one, _name in served.program.build.devices]
            found = served.program.logs[devices.index(device)] or found
        return found

    return get_build_info


def _is_new(program: Any, devices: Any) -> bool:
    """Return True if a program was made of a source, is unchanged since, and is to be built for all its devices."""
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


def _source(program: Any) -> Any:
    """Return the source that the user gave, as text."""
    source = program._source
    return source.decode("utf-8") if isinstance(source, bytes) else source


def _text(program: Any, options: Any) -> ProgramText | None:
    """Return the text of a program and its options, None if pyopencl has to judge their form."""
    try:
        source = _source(program)
        source.encode("utf-8")
        given = tuple(shlex.split(options) if isinstance(options, str) else options or ())
    except (AttributeError, TypeError, UnicodeError, ValueError):
        return None
    # Some drivers refuse questions about a program without a kernel; pyopencl's own cache adds something to it.
    # pyopencl refuses a directory with a blank, which a Source may have.
    if (
        not ("kernel" in source or "#" in source)
        or not all(isinstance(word, str) for word in given)
        or passed(given) != [*given]
    ):
        return None
    return ProgramText(_kernel_name(source, given) or "program", source, given, ())


def _kernel_name(source: str, given: tuple[str, ...]) -> str:
    """Return the name of the first kernel, empty where none is seen; of a macro the word for which it stands."""
    name = _behind_a_macro(source) or first_kernel(source)
    after = source.find(f"define {name} ")
    words = [word.partition("=")[2] for word in given if word.startswith(f"-D{name}=")]
    words += source[after : after + 200].split(None, 3)[2:3] if name and after >= 0 else []
    return next((word for word in words if word.isidentifier()), name)


def _behind_a_macro(source: str) -> str:
    """Return the name of the first kernel whose word is a macro, as pyopencl's scans have it; empty where none is."""
    for macro in re.findall(_DEFINED, source):
        if found := re.search(_BEHIND.format(macro), source, re.MULTILINE):
            return found[1] or found[2]
    return ""


def _where(text: ProgramText) -> dict[str, str]:
    """Return the line of the program that builds a text, and the options for the compiler, as names without a value."""
    words = f" {' '.join(text.options)}".replace(" -D ", " -D").split(" -")[1:]
    options = [f"-{word[:60]}" for word in words if not word.startswith("I")]
    return dict.fromkeys([line_of_the_program(), *options], "")


def _serve(program: Any, text: ProgramText) -> BuiltProgram | None:
    """Build a program of the user through the binary layer; return what it got, None if that did not work.

    Raises pyopencl's own error where the source does not compile, and the errors of `KCL_STRICT`.
    """
    started = time.perf_counter()
    try:
        build = _stage(program._context)
        options, _path = program._process_build_options(program._context, text.options)
        where = _where(text)
        with Lead(text.kernel, where, str) as lead:
            found: BuiltProgram = obtain(
                build, BuildRequest(text, program, next(iter(where))), lead
            )
    except Exception as error:
        if isinstance(error, cl.Error) and program._prg is not None:
            setattr(program, _SERVED, None)
            raise  # the compiler's own error
        program._prg = None
        if isinstance(error, (CacheMiss, CacheFault, SettingError)):
            raise
        layers.binary().fault("build a program", error)
        return None
    setattr(program, _SERVED, ServedProgram(found, options.decode("utf-8")))
    program._prg = found.program._get_prg()
    how = "cache retrieval" if found.stored else "source build resulting from a binary cache miss"
    program._build_duration_info = (how, bool(found.stored), time.perf_counter() - started)
    return found


def _stage(context: cl.Context) -> Build:
    """Return the second stage for a context of the user; the stage does not hold the user's object."""
    found: Build | None = getattr(context, _BUILD, None)
    if found is None or not is_current(found):
        own = cl.Context.from_int_ptr(context.int_ptr, retain=True)
        found = vars(context)[_BUILD] = build_of(own, drivers.of)
    return found
