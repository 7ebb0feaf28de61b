"""The state of a process that decides code beside the record, and its key parts.

These are the generators' versions and files, and the structures that the program has registered with pyopencl, at each
call and at the look-up. While the program has changed something inside the generators, nothing has a key.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.frontends import GENERATING
from kcl.generate import GENERATORS, distributions
from kcl.generate.protocol import Structures, common_parts, registered, structure_parts

SKIP = "_LOOPY_SKIP_ARG_CHECKS"
CHANGED = "the generators were changed after the key"


def loaded() -> Any:
    """Return the module loopy if its code has run, even if its import is just ending; else None."""
    package = sys.modules.get("loopy")
    # The last name that its code defines.
    return package if hasattr(package, "set_default_target") else None


class Moment(NamedTuple):
    """The state that a program has set at one moment."""

    structures: Structures = ()
    # A digest of the other dtypes with their names in C.
    names: str = ""
    # The value of the variable that makes loopy skip argument checks.
    skips: str | None = None


def now() -> Moment:
    """Return the present state; raise UnknownInput while the program has changed something in the generators."""
    # Only a look-up of a few names in a process without the generators.
    if not sys.modules.keys().isdisjoint(GENERATING):
        from kcl.frontends.loopy import insides

        insides.refuse()
    return Moment(*registered(), settings.variable(SKIP))


def stands(moment: Moment | None) -> bool:
    """Return True if the program's state is still the same."""
    try:
        return now() == moment
    except UnknownInput:
        return False


def shared() -> tuple[Part, ...]:
    """Return the key parts that all keys of units share; memoised."""
    # loopy's invokers have asserts, which `python -O` leaves out.
    optimize = Part("optimize", str(sys.flags.optimize))
    return common_parts(GENERATORS, (optimize,))


def parts() -> list[Part]:
    """Return the shared parts, and a part for the environment variable that loopy reads while it generates."""
    return [*shared(), *_switches()]


def _switches() -> list[Part]:
    return [Part("argument checks", "skipped")] if settings.variable(SKIP) else []


def state(moment: Moment, with_structures: bool = False) -> list[Part]:
    """Return the key parts for names of dtypes, and optionally for registered structures."""
    names = [Part("dtype names", moment.names)] if moment.names else []
    return names + (structure_parts(moment.structures) if with_structures else [])


def compared(key: Key) -> tuple[Key, Key]:
    """Return the shared parts of another key, and the same parts with the values of this process."""
    here = {"argument checks": "", **dict(parts())}
    before, now = [], []
    for part in key.parts:
        name = part.name
        is_distribution = name.startswith("distribution ")
        value = distributions.counted(name.partition(" ")[2]) if is_distribution else here.get(name)
        before += [] if value is None else [part]
        now += [Part(name, value)] if value else []
    # Only keys of code from loopy have this part.
    if "optimize" in dict(before):
        now += [part for part in _switches() if part not in now]
    return Key(before), Key(now)
