"""The front end of loopy: its face, records of a program's calls and their digests, proofs, units and their code."""

from __future__ import annotations

from kcl.base.attended import Listener
from kcl.generate import GENERATORS, ONLY_RUN, top_of

_COMPARED = frozenset(GENERATORS) - ONLY_RUN | {"pyopencl"}


def is_generators(name: str) -> bool:
    """Return True for a module of what loopy generates with, or of pyopencl."""
    return top_of(name) in _COMPARED


# The imports of these modules, of which each may fill tables of the others. `insides` hears them.
generators = Listener(lambda name: "generators" if is_generators(name) else "")
