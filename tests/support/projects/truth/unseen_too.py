"""Imported by what a recipe imports."""

VALUE = 14
