"""Stage 2: a program text becomes a program."""
