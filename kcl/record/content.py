"""The content key of a loopy TranslationUnit: a digest of everything in the unit that decides the generated code.

loopy's own digest (`loopy.tools.LoopyKeyBuilder`) cannot serve. It names functions instead of reading their code, it
leaves out preamble generators, manglers, fields of structures and attributes of targets, and it is memoised on objects
that can change afterwards.
"""

from __future__ import annotations

import hashlib
import operator
from typing import Any

from kcl.base.dtypes import structures
from kcl.record.callables import walker


def content_key(unit: Any) -> str:
    """Return the SHA-256 over the content that decides the code of `unit`, in hex; raise UnknownInput with the reason.

    The key also covers the structures that are registered with pyopencl, if code of the user, or a dtype of the unit,
    may ask for one. It is the same in every process. Each call reads the unit again: kcl remembers nothing about it.
    """
    found = walker.walked((unit,))  # a unit alone is a callable, whose class loopy would run
    if found.structured or found.parts:
        found = walker.walked((unit, sorted(structures(), key=operator.itemgetter(0))))
    return hashlib.sha256(found.digest.encode()).hexdigest()
