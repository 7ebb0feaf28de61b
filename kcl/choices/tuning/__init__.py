"""Tuning: a recipe declares choices, `kcl tune` measures them, and calls then use the fastest one for their sizes."""
