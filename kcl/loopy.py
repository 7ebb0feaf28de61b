"""The face of loopy: write `import kcl.loopy as lp` in place of `import loopy as lp`.

It has loopy's names. kcl records the calls by which a program makes and transforms units. loopy itself is imported only
for a question that nothing else can answer, or for code that is not in kcl's caches. As thread-safe as loopy.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kcl.frontends.loopy import face, imports
from kcl.programs import note_outside_builds

if TYPE_CHECKING:
    from loopy import *  # noqa: F403


# For keys: code that uses this module depends on loopy.
__kcl_lazy_module__ = "loopy"
sys.modules[__name__].__class__ = face.Face
imports.named_above()
note_outside_builds()
