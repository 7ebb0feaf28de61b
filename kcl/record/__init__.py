"""A program's questions to loopy, recorded: the face of loopy, records and their digests, proofs, and making units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

GENERATING = frozenset({"loopy", "pymbolic", "cgen", "genpy"})  # what no warm start imports of the generators


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
