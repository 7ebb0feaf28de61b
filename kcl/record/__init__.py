"""A program's questions to loopy, recorded: the face of loopy, records and their digests, proofs, and making units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

# what no warm start imports of the generators
GENERATING = frozenset({"loopy", "pymbolic", "islpy", "namedisl", "constantdict", "cgen", "genpy"})


class Modes:
    """A base class of objects with modes in their attributes."""

    @contextmanager
    def having(self, **values: Any) -> Iterator[None]:
        """Set some of the modes in a block."""
        before = {name: getattr(self, name) for name in values}
        vars(self).update(values)
        try:
            yield
        finally:
            vars(self).update(before)


def below_kcl(value: Any) -> Any:
    """Return what stands below kcl's own functions, which call it."""
    while is_of_kcl(value):
        below = value.__dict__.get("__wrapped__")
        if below is None:
            break
        value = below
    return value


def is_of_kcl(value: Any) -> bool:
    """Return True for a function of kcl's own. No attribute tells: `functools.wraps` would copy it."""
    return isinstance(value, FunctionType) and str(value.__globals__.get("__name__")).startswith(
        "kcl."
    )
