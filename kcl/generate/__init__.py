"""Stage 1: makes code from the result of a recipe.

This module keeps, for each thread, whether calls of a front end's library are recorded now, and for which recipe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcl.generate.declarations import RecipeCall

# The distributions that turn a recipe into OpenCL C and run it. A list, and not the requirements in loopy's metadata:
# with those, an upgrade of a library that decides no program text would make every kernel miss. A test checks that each
# distribution that is imported when a kernel is generated and launched is here or in `HARMLESS`.
GENERATORS = (
    *("loopy", "islpy", "pymbolic", "cgen", "genpy", "pytools", "pyopencl", "numpy"),
    *("constantdict", "mako", "markupsafe", "namedisl"),
)
# The ones of them whose code runs with a kernel or before it but decides no program text.
ONLY_RUN = frozenset({"numpy", "pyopencl", "mako", "markupsafe"})


class Modes:
    """An object whose attributes can be set for a block of code."""

    @contextmanager
    def having(self, **values: Any) -> Iterator[None]:
        """Set attributes within a block; they get their former values back after it."""
        before = {name: getattr(self, name) for name in values}
        vars(self).update(values)
        try:
            yield
        finally:
            vars(self).update(before)


class _Thread(threading.local, Modes):
    """The modes of the present thread."""

    # The recipe that is running, if its calls are recorded.
    call: RecipeCall | None = None
    # True while calls go to the library unrecorded.
    carrying = False
    # True while a value is written for display: the `repr` of a recorded unit must not carry its record out.
    showing = False
    # True once the program, or the running recipe, has asked a question that only the library can answer.
    asked = False
    # Collects what a call reads from pytools' dictionaries on disk. Set by the front end of pytato's graphs.
    reads: Any = None
    # The number of recorded calls that this thread has carried out.
    carried = 0


thread = _Thread()


def carrying() -> AbstractContextManager[None]:
    """In a block let calls of this thread go to the library unrecorded.

    Used while the library works for kcl, in a pure recipe, and in a recipe whose layer is off.
    """
    return thread.having(carrying=True)


def shown(value: Any) -> str:
    """Return the `repr` of a value; an unmade unit in it appears by class and digest."""
    with thread.having(showing=True):
        return repr(value)
