"""The front end of loopy: the face, records of a program's calls, proofs, units, and their code."""

from __future__ import annotations

from kcl.base.attended import Listener
from kcl.generate import GENERATORS, ONLY_RUN, top_of

_COMPARED = frozenset(GENERATORS) - ONLY_RUN | {"pyopencl"}


def is_generators(name: str) -> bool:
    """Return True if a module belongs to loopy, a library it generates with, or pyopencl."""
    return top_of(name) in _COMPARED


# Listens to the imports of these modules, since each may fill tables of the others; for `insides`.
generators = Listener(lambda name: "generators" if is_generators(name) else "")
