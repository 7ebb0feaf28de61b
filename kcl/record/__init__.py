"""A program's questions to loopy, recorded: the face of loopy, records and their digests, proofs, and making units."""
