"""Stage 1: what a recipe returned becomes code."""
