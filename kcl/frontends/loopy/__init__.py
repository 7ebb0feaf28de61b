"""The front end of loopy: its face, records of a program's calls and their digests, proofs, units and their code."""

from __future__ import annotations

import functools

from kcl.base.attended import Listener

# The top-level modules of the generators. No warm start imports one of them.
GENERATING = frozenset({"loopy", "pymbolic", "islpy", "namedisl", "constantdict", "cgen", "genpy"})


@functools.cache
def is_generators(name: str) -> bool:
    """Return True for a module of what loopy generates with, or of pyopencl."""
    from kcl.generate import distributions

    top = name.partition(".")[0]
    is_run = top in distributions.ONLY_RUN
    return top == "pyopencl" or (top in distributions.GENERATORS and not is_run)


# The imports of these modules, of which each may fill tables of the others. `insides` hears them.
generators = Listener(lambda name: "generators" if is_generators(name) else "")
