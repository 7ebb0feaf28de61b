"""Stage 1: the result of a recipe becomes code.

The package itself says for each thread whether calls of a front end's library are recorded now, and for which recipe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcl.generate.declarations import RecipeCall

# The distributions that turn a recipe into OpenCL C and run it. This is a list, and not what loopy requires by its
# metadata: an upgrade of a library that decides no text would be a miss of each kernel. A test asks whose modules are
# imported as a kernel is generated and launched: each is here or in `HARMLESS`.
GENERATORS = (
    *("loopy", "islpy", "pymbolic", "cgen", "genpy", "pytools", "pyopencl", "numpy"),
    *("constantdict", "mako", "markupsafe", "namedisl"),
)
# These run with a kernel or before it, and what their modules hold decides no program text.
ONLY_RUN = {"numpy", "pyopencl", "mako", "markupsafe"}


def top_of(module: str) -> str:
    """Return the name of the top-level module or package above a module."""
    return module.partition(".")[0]


class Modes:
    """An object with attributes that hold for a block of code."""

    @contextmanager
    def having(self, **values: Any) -> Iterator[None]:
        """Give attributes these values in a block, and their former values after it."""
        before = {name: getattr(self, name) for name in values}
        vars(self).update(values)
        try:
            yield
        finally:
            vars(self).update(before)


class _Thread(threading.local, Modes):
    """The state of this thread."""

    # The recipe that runs, if its calls are recorded.
    call: RecipeCall | None = None
    # True while calls reach the library unrecorded.
    carrying = False
    # True while a value is shown to a person: the `repr` of a unit must not make it.
    showing = False
    # True once the program, or the recipe that runs, has asked a question that only the library answers.
    asked = False
    # What a call reads of pytools' dictionaries on disk. The front end of graphs sets it.
    reads: Any = None
    # The calls that this thread has carried out.
    carried = 0


thread = _Thread()


def carrying() -> AbstractContextManager[None]:
    """Let calls of this thread reach their library unrecorded in a block.

    So it is while the library runs for kcl, in a pure recipe, and in a recipe whose layer is off.
    """
    return thread.having(carrying=True)


def shown(value: Any) -> str:
    """Return the `repr` of a value, in which a unit that is not made appears by class and digest."""
    with thread.having(showing=True):
        return repr(value)
