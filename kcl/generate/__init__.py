"""Stage 1: the result of a recipe becomes code."""
