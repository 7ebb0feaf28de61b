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


class LoopyWarningBase(UserWarning, metaclass=_Category):
    """The base of loopy's warnings."""


class LoopyWarning(LoopyWarningBase, metaclass=_Category):
    """A problem of a kernel that loopy warns of."""


class LoopyAdvisory(LoopyWarningBase, metaclass=_Category):
    """Advice of loopy about a kernel."""


class ParameterFinderWarning(LoopyWarning, metaclass=_Category):
    """A size does not follow from the arguments."""


class WriteRaceConditionWarning(LoopyWarning, metaclass=_Category):
    """Several work-items write to one place."""


class DirectCallUncachedWarning(LoopyWarning, metaclass=_Category):
    """A program called a unit directly; loopy builds its OpenCL program again for the call."""


WARNINGS: dict[str, type[Warning]] = {
    kind.__name__: kind
    for kind in (
        LoopyWarningBase,
        LoopyWarning,
        LoopyAdvisory,
        ParameterFinderWarning,
        WriteRaceConditionWarning,
        DirectCallUncachedWarning,
    )
}
for _kind in WARNINGS.values():
    _kind.__module__ = "loopy.diagnostic"
