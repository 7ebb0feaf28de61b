"""Replaces pyopencl's `Program.build`, so that programs of any user go through the binary layer.

kcl builds a program that was made from source and not inspected before its build. pyopencl itself builds all others:
those from binaries or intermediate language, by compile and link, for some devices of a context only, or with a cache
directory of the program's choice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyopencl as cl

from kcl import foreign
from kcl.base import events, hide_from_warnings
from kcl.integrations import SERVED

NEEDED = (
    "Program.build",
    "Program.compile",
    "Program.get_info",
    "Program.get_build_info",
    "Program.source",
    "Program._build_and_catch_errors",
    "Program._process_build_options",
    "Program._get_prg",
    "_cl._Program",
)


def replacements(package: Any) -> list[tuple[Any, str, Any]]:
    """Return the replacements of pyopencl's functions: (holder, name, value).

    PoCL gets a usable cache directory if it lacks one: pyopencl has just been imported, so PoCL has not started yet.
    """
    events.listen()
    if warning := foreign.provide_pocl():
        from kcl.cache.faults import warn_once

        warn_once(warning, warning)
    program = package.Program
    return [
        (program, "build", _build(program.build)),
        (program, "compile", _compile(program.compile)),
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
        # A second build replaces the results of the first.
        if SERVED in vars(self):
            delattr(self, SERVED)
            # kcl may have made it from a binary, which cannot be built with other options.
            self._prg = None
        served = None if cache_dir is not None else _served()
        try:
            built = None if served is None else served.serve(self, options, devices)
        except Exception as error:
            # Without kcl's frames; the user's are added as the error propagates.
            raise error.with_traceback(None)  # noqa: B904 - it is the same error
        if built is None:
            original(self, options, devices, cache_dir)
        else:
            built.warn()
        return self

    return build


def _compile(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(self: Any, options: Any = None, devices: Any = None, headers: Any = None) -> Any:
        unbuilt = [(name, _unbuilt(header)) for name, header in headers or ()]
        program = _unbuilt(self)
        original(program, options, devices, unbuilt)
        self._prg = program._prg
        vars(self).pop(SERVED, None)
        return self

    hide_from_warnings(compile)
    return compile


def _unbuilt(program: Any) -> Any:
    """Return a program as it was before kcl built it, perhaps of a binary, which drivers do not compile."""
    if SERVED not in vars(program):
        return program
    return cl.Program(cl._cl._Program(program._context, program._source))


def _served() -> Any:
    """Import and return `kcl.integrations.served`, late since it is not needed before a build; None after a fault."""
    try:
        from kcl.integrations import served
    except Exception as error:
        from kcl.cache import layers

        layers.binary().fault("build a program", error)
        return None
    return served


def _get_info(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_info(self: Any, arg: Any) -> Any:
        if SERVED in vars(self) and arg == cl.program_info.SOURCE:
            from kcl.integrations import served

            return served.source_of(self)
        return original(self, arg)

    hide_from_warnings(get_info)
    return get_info


def _get_build_info(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_build_info(self: Any, *arguments: Any, **keywords: Any) -> Any:
        served = vars(self).get(SERVED)
        if served is None or keywords or len(arguments) != 2:
            return original(self, *arguments, **keywords)
        (program, options), (device, parameter) = served, arguments
        if parameter == cl.program_build_info.OPTIONS:
            return options
        answer = original(self, device, parameter)
        if parameter == cl.program_build_info.LOG and program.logs:
            devices = [own_device for own_device, _name in program.build.devices]
            answer = program.logs[devices.index(device)] or answer
        return answer

    return get_build_info
