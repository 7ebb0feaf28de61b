"""The inheritance of children of `kcl run`: the integrations, through this folder at the head of PYTHONPATH.

Python imports `sitecustomize` from there as it starts. A child does nothing under another interpreter, without kcl, or
where it does not read PYTHONPATH.
"""

from __future__ import annotations

import os
import sys

from kcl.base import settings

FOLDER = os.path.dirname(os.path.abspath(__file__))


def inherit() -> None:
    """Let the children of this process install the integrations, too."""
    before = [path for path in (settings.variable("PYTHONPATH") or "").split(os.pathsep) if path and path != FOLDER]
    interpreter = f"{sys.implementation.cache_tag} {sys.prefix}"  # the children of another one do not inherit
    settings.export({"PYTHONPATH": os.pathsep.join([FOLDER, *before]), settings.RUN: interpreter})
