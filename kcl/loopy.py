"""The face of loopy: `import kcl.loopy as lp` in the place of `import loopy as lp`.

Its names are loopy's. kcl records the units that a program makes and transforms. loopy is imported for a question that
only loopy can answer, or for code that kcl's caches do not hold. Thread-safe as loopy is.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kcl.frontends.loopy import face, imports
from kcl.programs import note_outside_builds

if TYPE_CHECKING:
    from loopy import *  # noqa: F403


# Code that uses this module uses loopy.
__kcl_lazy_module__ = "loopy"
sys.modules[__name__].__class__ = face.Face
imports.named_above()
note_outside_builds()
