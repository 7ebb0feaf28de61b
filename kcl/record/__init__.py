"""A program's questions to loopy, recorded: the face of loopy, records and their digests, proofs, and making units."""

from __future__ import annotations

GENERATING = frozenset({"loopy", "pymbolic", "cgen", "genpy"})  # what no warm start imports of the generators
