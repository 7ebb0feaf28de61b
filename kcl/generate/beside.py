"""The inputs of generated code beside what a recipe asked for: what generates it, and what a program has registered.

The distributions that generate code count by version and installed files.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from typing import Any

from kcl.base import dtypes, process
from kcl.base.dtypes import dtype_text
from kcl.cache.key import Part
from kcl.generate import distributions

FORMAT = "5"  # of the generator key; it stands beside the version and the files of kcl


class State:
    """The known structures, with the registry that they were found in."""

    def __init__(self) -> None:
        self.registry: tuple[list[Any], list[str]] = ([], [])
        self.structures: tuple[tuple[str, str], ...] = ()
        self.names = ""


_state = process.own(State)


@functools.cache
def parts(generators: tuple[str, ...], also: tuple[Part, ...] = ()) -> tuple[Part, ...]:
    """Return the parts of every key of code that some distributions generate; memoised."""
    names = sorted(generators)
    distributions.count([distributions.KCL, *names])
    head = [
        Part("kcl", f"{FORMAT} {distributions.counted(distributions.KCL)}"),
        Part("python", distributions.INTERPRETER),
        *also,
    ]
    return tuple(
        head + [Part(f"distribution {name}", distributions.counted(name)) for name in names]
    )


def structures(registry: tuple[tuple[str, str], ...] | None = None) -> list[Part]:
    """Return the part of a key for the structures that a program registered; none where it registered none."""
    found = registered()[0] if registry is None else registry
    return [Part("state", f"structures {found}")] if found else []


def registered() -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the structures that a program registered with a name in C that no dtype holds: (name, text) of each.

    The second value is a digest of the names of other dtypes: a program may change the table itself.
    """
    module: Any = sys.modules.get("pyopencl.compyte.dtypes")
    if module is None:
        return (), ""
    named, state = module.TYPE_REGISTRY.dtype_to_name, _state()
    registry = [*named], [*named.values()]
    if state.registry != registry:
        state.registry = registry
        found = dtypes.structures()
        state.structures = tuple(sorted([(name, dtype_text(dtype)) for name, dtype in found]))
        others = {dtype for dtype in named if not isinstance(dtype, str)}.difference(
            [dtype for _name, dtype in found]
        )
        texts = sorted([f"{dtype.str} {len(dtype.names or ())} {named[dtype]}" for dtype in others])
        state.names = hashlib.sha256("; ".join(texts).encode()).hexdigest()
    return state.structures, state.names
