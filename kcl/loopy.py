"""The face of loopy: `import kcl.loopy as lp` in the place of `import loopy as lp`.

Its names are loopy's. kcl records the units that a program makes and transforms. loopy is imported for a question that
only loopy can answer, or for code that kcl's caches do not hold. Thread-safe as loopy is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcl.record import imports

if TYPE_CHECKING:
    from loopy import *  # noqa: F403


__kcl_lazy_module__ = "loopy"  # code that uses this module uses loopy


def __getattr__(name: str) -> Any:
    """Return the face's object under a name of loopy."""
    if name.startswith("__") and name.endswith("__") and name != "__all__":  # the import system asks for these
        raise AttributeError(f"module 'kcl.loopy' has no attribute {name!r}")
    from kcl.record.face import Function, face

    found = getattr(face, name)
    if type(found) is Function:  # it is the same at every time
        globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List the names of loopy, which this imports."""
    from kcl.record.face import face

    return dir(face)


imports.install()
