"""The inputs beside a record that decide how loopy carries it out and generates code.

The distributions that generate code count by version and installed files. The structures that a program registered
with pyopencl count as of each call and as of the look-up. While a program has changed something inside the generators,
nothing has a key.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from typing import Any, NamedTuple

from kcl.base import process, settings
from kcl.base.dtypes import dtype_text
from kcl.base.dtypes import structures as registered_structures
from kcl.cache.key import Key, Part
from kcl.record import GENERATING, distributions

FORMAT = "5"  # of the generator key; it stands beside the version and the files of kcl
SKIP = "_LOOPY_SKIP_ARG_CHECKS"
_FOR_SOURCE = ("numpy", "pyopencl")  # the distributions that the invoker of a kcl.Source depends on


class Moment(NamedTuple):
    """What a program has set by now."""

    structures: tuple[tuple[str, str], ...] = ()  # name in C, text of the dtype
    names: str = ""  # a digest of the names in C of all other dtypes
    skips: str | None = (
        None  # the variable by which loopy leaves argument checks out, as it makes a unit
    )


class State:
    """The known structures, with the registry that they were found in."""

    def __init__(self) -> None:
        self.registry: tuple[list[Any], list[str]] = ([], [])
        self.structures: tuple[tuple[str, str], ...] = ()
        self.names = ""


_state = process.own(State)


@functools.cache
def parts(with_loopy: bool) -> tuple[Part, ...]:
    """Return the parts that every key of the generator layer has; memoised."""
    names = sorted(distributions.GENERATORS if with_loopy else _FOR_SOURCE)
    distributions.count([distributions.KCL, *names])
    head = [
        Part("kcl", f"{FORMAT} {distributions.counted(distributions.KCL)}"),
        Part("python", distributions.INTERPRETER),
    ]
    if with_loopy:
        head.append(Part("optimize", str(sys.flags.optimize)))  # the asserts of loopy's invokers
    return tuple(
        head + [Part(f"distribution {name}", distributions.counted(name)) for name in names]
    )


def switches() -> list[Part]:
    """Return the switches that loopy itself reads from the environment while it generates."""
    return [Part("argument checks", "skipped")] if settings.variable(SKIP) else []


def now() -> Moment:
    """Return what the program has set by now; raise UnknownInput while it has changed something in the generators."""
    if not sys.modules.keys().isdisjoint(GENERATING):  # looks at the few names
        from kcl.record import insides

        insides.refuse()
    return Moment(*_registered(), settings.variable(SKIP))


def state(moment: Moment, with_structures: bool = False) -> list[Part]:
    """Return the parts of a key for the names of dtypes, and for registered structures."""
    names = [Part("dtype names", moment.names)] if moment.names else []
    if with_structures and moment.structures:
        names.append(Part("state", f"structures {moment.structures}"))
    return names


def structures() -> tuple[tuple[str, str], ...]:
    """Return the structures that a program registered with a name in C that no dtype holds."""
    return _registered()[0]


def _registered() -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the structures, and the digest of the names of other dtypes: a program may change the table itself."""
    module: Any = sys.modules.get("pyopencl.compyte.dtypes")
    if module is None:
        return (), ""
    named, state = module.TYPE_REGISTRY.dtype_to_name, _state()
    registry = [*named], [*named.values()]
    if state.registry != registry:
        state.registry = registry
        found = registered_structures()
        state.structures = tuple(sorted([(name, dtype_text(dtype)) for name, dtype in found]))
        others = {dtype for dtype in named if not isinstance(dtype, str)}.difference(
            [dtype for _name, dtype in found]
        )
        texts = sorted([f"{dtype.str} {len(dtype.names or ())} {named[dtype]}" for dtype in others])
        state.names = hashlib.sha256("; ".join(texts).encode()).hexdigest()
    return state.structures, state.names


def compared(key: Key) -> tuple[Key, Key]:
    """Return the shared parts of a key, and the same parts with their values here."""
    here = {
        "python": distributions.INTERPRETER,
        "optimize": str(sys.flags.optimize),
        "argument checks": "",
        **{part.name: part.value for part in (*parts(True), *switches())},
    }
    before, now = [], []
    for part in key.parts:
        name = part.name
        is_distribution = name.startswith("distribution ")
        found = distributions.counted(name.partition(" ")[2]) if is_distribution else here.get(name)
        before += [] if found is None else [part]
        now += [Part(name, found)] if found else []
    if "optimize" in dict(before):  # loopy generates
        now += [part for part in switches() if part not in now]
    return Key(before), Key(now)
