"""The state of a program beside a record, and the parts of a key for it.

The distributions that generate code count by version and installed files. The structures that a program registered
with pyopencl count as of each call and as of the look-up. While a program has changed something inside the generators,
nothing has a key.
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
    """Return the real loopy if its code has run, else None; its import may end just now."""
    package = sys.modules.get("loopy")
    # This is its last name: without it a thread is still running the code of the package.
    return package if hasattr(package, "set_default_target") else None


class Moment(NamedTuple):
    """What a program has set by now."""

    structures: Structures = ()
    # A digest of the names in C of all other dtypes.
    names: str = ""
    # The variable by which loopy leaves argument checks out as it makes a unit.
    skips: str | None = None


def now() -> Moment:
    """Return what the program has set by now; raise UnknownInput while it has changed something in the generators."""
    # The few names are looked up: a process without the generators pays for no more.
    if not sys.modules.keys().isdisjoint(GENERATING):
        from kcl.frontends.loopy import insides

        insides.refuse()
    return Moment(*registered(), settings.variable(SKIP))


def stands(moment: Moment | None) -> bool:
    """Return True if the state of the program is still that of a key."""
    try:
        return now() == moment
    except UnknownInput:
        return False


def shared() -> tuple[Part, ...]:
    """Return the parts of every key of a unit that each process has alike; memoised."""
    # loopy's invokers have asserts, which `python -O` leaves out.
    optimize = Part("optimize", str(sys.flags.optimize))
    return common_parts(GENERATORS, (optimize,))


def parts() -> list[Part]:
    """Return the shared parts, and the switches that loopy itself reads from the environment while it generates."""
    return [*shared(), *_switches()]


def _switches() -> list[Part]:
    return [Part("argument checks", "skipped")] if settings.variable(SKIP) else []


def state(moment: Moment, with_structures: bool = False) -> list[Part]:
    """Return the parts of a key for the names of dtypes, and for registered structures."""
    names = [Part("dtype names", moment.names)] if moment.names else []
    return names + (structure_parts(moment.structures) if with_structures else [])


def compared(key: Key) -> tuple[Key, Key]:
    """Return the shared parts of a key, and the same parts with their values here."""
    here = {"argument checks": "", **dict(parts())}
    before, now = [], []
    for part in key.parts:
        name = part.name
        is_distribution = name.startswith("distribution ")
        value = distributions.counted(name.partition(" ")[2]) if is_distribution else here.get(name)
        before += [] if value is None else [part]
        now += [Part(name, value)] if value else []
    # A key with this part is one of code that loopy generates.
    if "optimize" in dict(before):
        now += [part for part in _switches() if part not in now]
    return Key(before), Key(now)
