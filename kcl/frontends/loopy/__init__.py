"""The front end of loopy: its face, records of a program's calls and their digests, proofs, units and their code."""

# The top-level modules of the generators. No warm start imports one of them.
GENERATING = frozenset({"loopy", "pymbolic", "islpy", "namedisl", "constantdict", "cgen", "genpy"})
