"""The front end of loopy: its face, records of a program's calls and their digests, proofs, units and their code."""

# what no warm start imports of the generators
GENERATING = frozenset({"loopy", "pymbolic", "islpy", "namedisl", "constantdict", "cgen", "genpy"})
