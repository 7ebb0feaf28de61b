"""Tuning: a recipe declares choices, kcl measures them when asked, and a call is served the fastest that is known."""
