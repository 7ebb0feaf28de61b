"""The front end of loopy: the face, records of a program's calls, proofs, units, and their code."""

from __future__ import annotations

from kcl.base.attended import Listener
from kcl.generate import GENERATORS, ONLY_RUN

# The top-level modules of loopy and the libraries it generates with. A warm start imports none of them.
GENERATING = frozenset({"loopy", "pymbolic", "islpy", "namedisl", "constantdict", "cgen", "genpy"})
_COMPARED = frozenset(GENERATORS) - ONLY_RUN | {"pyopencl"}


def is_generators(name: str) -> bool:
    """Return True if a module belongs to loopy, a library it generates with, or pyopencl."""
    return name.partition(".")[0] in _COMPARED


# Listens to the imports of these modules, since each may fill tables of the others; for `insides`.
generators = Listener(lambda name: "generators" if is_generators(name) else "")
