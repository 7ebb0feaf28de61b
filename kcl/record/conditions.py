"""loopy's warning categories, for warning filters and warnings in a process that has not imported loopy.

A filter that names one of these also matches loopy's own class of that name.
"""

from __future__ import annotations

import sys
from typing import Any


class _Category(type):
    """A category that counts as loopy's class of the same name."""

    def __subclasscheck__(cls, other: type) -> bool:
        theirs = getattr(sys.modules.get("loopy.diagnostic"), cls.__name__, None)
        return super().__subclasscheck__(other) or (isinstance(theirs, type) and issubclass(other, theirs))

    def __instancecheck__(cls, value: Any) -> bool:
        return issubclass(type(value), cls)


_BASES = {
    "LoopyWarningBase": "UserWarning",
    "LoopyWarning": "LoopyWarningBase",
    "LoopyAdvisory": "LoopyWarningBase",
    "ParameterFinderWarning": "LoopyWarning",
    "WriteRaceConditionWarning": "LoopyWarning",
    "DirectCallUncachedWarning": "LoopyWarning",
}
WARNINGS: dict[str, type[Warning]] = {"UserWarning": UserWarning}
for _name, _base in _BASES.items():
    _made: Any = _Category(_name, (WARNINGS[_base],), {"__module__": "loopy.diagnostic"})
    WARNINGS[_name] = _made
del WARNINGS["UserWarning"]
