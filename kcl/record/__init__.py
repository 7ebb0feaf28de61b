"""What a program asks of loopy, recorded: the face of loopy, records and their digests, proofs, and making units."""
