"""Sphinx: the documentation of kcl. Nothing here asks the network."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import kcl

project = "kcl"
author = "the kcl developers"
project_copyright = f"2026, {author}"
release = kcl.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"kcl {release}"

myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
