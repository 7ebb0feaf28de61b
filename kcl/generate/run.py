"""Running a recipe on a miss, and its front end, both under observation: the result, and whether it may be stored."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from kcl.base import settings, spans
from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.generate import frontends
from kcl.generate.rows import RecipeOutcome, dtype_parts
from kcl.record import beside, manifest, observe, recorder
from kcl.record.callables import distributions, import_watch
from kcl.record.declarations import NOTHING, Declarations, RecipeCall
from kcl.record.evidence import Evidence
from kcl.record.manifest import ReadFact

if TYPE_CHECKING:
    import numpy as np

    from kcl.code import Code
    from kcl.record.callables.reach import Reach


def run(task: RecipeCall, reached: Reach | None) -> RecipeOutcome:
    """Run the recipe; describe its reads as of now."""
    front_ends = reached.front_ends if reached else frozenset[str]()
    begin = time.time_ns()
    with import_watch.holding():
        # Where the front end of the result is unknown, it may be loopy.
        result, observed = _watched(task, "" if front_ends == {"opencl"} or not _has_loopy() else "loopy")
    place = place_of(reached)
    refused = task.declared.refused(observed, place.directory, "the recipe {} while it ran")
    files = sorted({*observed.files, *result.reads})
    touched = [path for path in files if _touched_since(path, begin)]
    if task.declared.version is not None:
        # The declaration also vouches for files that the recipe itself wrote, and for files that are gone by now.
        files = [path for path in files if path not in touched]
    elif touched:
        refused = refused or "a file that the recipe reads changed while it ran"
    return RecipeOutcome(result, _reads(task.declared, files, observed, place), refused)


def generate(
    name: str, declared: Declarations, result: frontends.Result, dtypes: Mapping[str, np.dtype[Any]]
) -> tuple[Code, str, bool]:
    """Generate code for one choice of dtypes: (Code, why it must not be stored, whether the result decides it).

    Inputs that a declaration vouches for may decide the code beside the result.
    """
    with (
        spans.span("generate", name, settings.GENERATOR),
        recorder.carrying(),
        observe.observing() as observed,
        _quiet(result.front_end),
    ):
        if result.front_end == "loopy":
            generated, unkept = _heard(result, name, dtypes)
        else:
            generated, unkept = result.generate(name, dtypes), ""
    alone = not (result.volatile or _seen_in_generating(NOTHING, observed))
    return generated, result.volatile or unkept or _seen_in_generating(declared, observed), alone


def _heard(result: frontends.Result, name: str, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
    """Generate code, with the warnings that loopy gives for it: (Code, why these cannot be given again)."""
    from kcl.record import warned

    place = recorder.site()  # None in a thread of kcl's
    heard: list[Any] = []
    try:
        with warned.hearing() as heard:
            generated = result.generate(name, dtypes)
    except BaseException:
        if place is not None:
            warned.give(heard, place)
        raise
    facts = warned.kept(heard)
    if facts is None:
        if place is not None:
            warned.give(heard, place)
        return generated, "loopy gave a warning that only the code behind it can give again"
    return generated._replace(invoker=generated.invoker._replace(warned=facts)), ""


def unit_key(result: frontends.Result, dtypes: Mapping[str, np.dtype[Any]]) -> Key | None:
    """Return the key under which code of equal results is found; None where it cannot be known or must not be used."""
    if result.volatile:
        return None
    try:
        identity = result.identity()
    except UnknownInput:
        return None
    with_loopy = result.front_end != "opencl"
    beside_it = [*beside.parts(with_loopy)]
    try:
        beside_it += [*beside.switches(), *beside.state(beside.now())] if with_loopy else []
    except UnknownInput:
        return None
    return Key([*beside_it, Part("result", identity), *dtype_parts(dtypes)])


def place_of(reached: Reach | None) -> Evidence:
    """Return the place of a recipe."""
    if reached is None:
        return Evidence("", {}, False)
    values = tuple(part.value for part in reached.parts)
    return Evidence(reached.directory, reached.texts(), reached.placed, reached.origins(), values)


def _reads(
    declared: Declarations, files: list[str], observed: observe.Observations, place: Evidence
) -> tuple[ReadFact, ...]:
    texts = place.written
    return (
        *manifest.files([path for path in files if not declared.covers(path, place.directory)], place.directory, texts),
        *manifest.links(observed.links, place.directory, texts),
        *manifest.variables(name for name in observed.variables if name not in declared.env),
        *([manifest.working_directory()] if observed.working_directory else []),
        *declared.inputs(place.directory),
    )


def _watched(task: RecipeCall, front_end: str) -> tuple[frontends.Result, observe.Observations]:
    with recorder.silent(), observe.observing() as observed, _quiet(front_end):
        value = task.function(**task.arguments)
    result = frontends.accept(value, task.name)
    if result.front_end == "loopy" and front_end != "loopy":
        observed.refuse("ran loopy with its own disk caches on, whose stale code must not be kept")
    return result, observed


def _has_loopy() -> bool:
    from importlib.util import find_spec

    return "loopy" in sys.modules or find_spec("loopy") is not None


def _seen_in_generating(declared: Declarations, observed: observe.Observations) -> str:
    """Return why a row must not be stored: the reads of the user's code, for example a preamble generator."""
    refused = declared.refused(observed, "", "generating {}")
    if refused or declared.version is not None:
        return refused
    # A traceback that is printed during it reads the code that it shows.
    files = [path for path in observed.files if not distributions.is_generators_code(path)]
    for things, words in ((files, "file "), (observed.links, "link "), (observed.variables, "variable ")):
        for thing in things:
            return f"generating read the {words}{os.path.basename(thing)}: read it in the recipe"
    return "generating asked for the working directory: ask in the recipe" if observed.working_directory else ""


def _quiet(front_end: str) -> Any:
    if front_end != "loopy":
        return nullcontext()
    with observe.unobserved():
        from kcl.generate.frontends.loopy import quiet
    return quiet()


def _touched_since(path: str, begin: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns > begin
    except FileNotFoundError:
        # If no file was taken out of its folder since then, the file never existed.
        folder = os.path.dirname(os.path.abspath(path))
        return folder != path and _touched_since(folder, begin)
    except OSError:
        return True
