"""Stage 1: the result of a recipe becomes code.

Here is the recipe that a thread runs, and what becomes of its calls of a front end's library meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcl.generate.declarations import RecipeCall


class Modes:
    """A base class of objects with modes in their attributes."""

    @contextmanager
    def having(self, **values: Any) -> Iterator[None]:
        """Set some of the modes in a block."""
        before = {name: getattr(self, name) for name in values}
        vars(self).update(values)
        try:
            yield
        finally:
            vars(self).update(before)


class _Thread(threading.local, Modes):
    """The state of this thread."""

    call: RecipeCall | None = None  # the recipe whose calls are recorded
    carrying = False  # a library runs for kcl, or a recipe runs that is not recorded
    showing = False  # a value is shown to a person, without the text of what is not made
    asked = False  # the program, or the recipe that runs, has asked a question that only the library answers
    reads: Any = None  # what a call reads of pytools' dictionaries on disk
    carried = 0  # calls that this thread has carried out


thread = _Thread()


def carrying() -> AbstractContextManager[None]:
    """Let every call through to its library: it runs for kcl, a pure recipe runs, or a recipe with its layer off."""
    return thread.having(carrying=True)


def shown(value: Any) -> str:
    """Return the repr of a value; results that are not made appear by class and digest."""
    with thread.having(showing=True):
        return repr(value)
