"""The line: from a Kernel and what a call gives to code, to a program, to a launcher.

    with Lead(kernel) as lead:                           # this thread, and whoever waits for what it makes
        ready = code(generate, Given(values), lead, build)  # stage 1: the generator layer
        found = program(build, ready, lead)              # stage 2: the binary layer
    launcher_of(ready, found)                            # bound once per queue, code and thread

Both stages go through `kcl.cache.lookup.obtain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl import drivers
from kcl.build.stage import Build, Program, Wanted, build_of
from kcl.cache.lookup import obtain
from kcl.code import show
from kcl.generate.stage import Generate, Given

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.cache.lead import Lead
    from kcl.code import Ready


def code(generate: Generate, given: Given, lead: Lead, build: Build) -> Ready:
    """Return code that is ready to launch in the context of `build`, from the generator layer or made now.

    Raises MissingArguments where the call is a launch and a required array is not there; the recipe's own error;
    RecipeError; CacheMiss.
    """
    ready: Ready = obtain(generate, given, lead)
    if ready.code.invoker.shown[0]:
        show(ready.code)
    # What is bound already for the same code was built with the headers of its moment, which may have passed.
    headers = build.headers_digest(ready.code.text)
    return ready._replace(digest=ready.digest + headers, headers=headers)


def program(build: Build, ready: Ready, lead: Lead, arguments: Mapping[str, Any] | None = None) -> Program:
    """Return the program of code; a new entry keeps the shapes of the `arguments` that it is built for."""
    text = ready.code.text
    return build.program(Wanted(text, arguments), build.digest(text, ready.headers), lead)


def stage_of(context: cl.Context) -> Build:
    """Return the second stage for a context, with the driver of its devices."""
    return build_of(context, drivers.of)
