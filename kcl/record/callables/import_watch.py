"""What the user's modules that count by their source held right after they were imported.

Such a module is unloaded when a key is first asked for, and may be imported later: by the recipe, or by the program,
which may change it then. The key stays as long as the module holds what its import gave it. So every import of such a
module is attended: a finder before all others has its loader tell when the module is there, and a fact is taken of each
name in it, before anybody else can have changed one. A module that came another way, or from another text than the one
that was counted, counts by what it holds.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

from kcl.base import process

Facts = dict[str, str]


class ImportWatch(NamedTuple):
    """A module that counts by its source."""

    unchanged: Callable[[], bool]  # whether its text is still the one that was counted
    describe: Callable[[ModuleType], Facts]


class SeenModule(NamedTuple):
    """A module as its import made it; no facts while they are being taken."""

    module: ModuleType
    facts: Facts | None


class _Thread(threading.local):
    depth = 0  # of attended imports
    held = 0  # blocks of `holding`
    waiting: tuple[ModuleType, ...] = ()


class State:
    """The modules whose imports are attended, and what those that were imported held."""

    def __init__(self) -> None:
        self.watched: dict[str, ImportWatch] = {}
        self.seen: dict[str, SeenModule] = {}
        self.finder: Any = None


_state = process.shared(State)
_thread = _Thread()


def watch(name: str, watched: ImportWatch) -> None:
    """Attend every import of a module that is not loaded now."""
    state = _state()
    if name not in state.watched:
        from kcl.base.attended import Finder

        state.watched[name] = watched
        state.finder = state.finder or Finder(lambda name: name in _state().watched, _run)
        state.finder.install()


def covers(name: str) -> bool:
    """Tell whether a module counts by its source: it is not loaded, or it is known what its import gave it."""
    state = _state()
    if name not in state.watched:
        return False
    module = sys.modules.get(name)
    seen = state.seen.get(name)
    return module is None or (seen is not None and seen.module is module)


def facts(name: str) -> Facts | None:
    """Return what a module that is covered held after its import; None where it is not loaded, or only just."""
    seen = _state().seen.get(name)
    return seen.facts if seen is not None and sys.modules.get(name) is seen.module else None


@contextmanager
def holding() -> Iterator[None]:
    """Take the facts of what is imported in the block at its end: a recipe imports one module after the other."""
    missing = [name for name in _state().watched if name not in sys.modules]
    _thread.held += 1
    try:
        yield
    finally:
        _thread.held -= 1
        loaded = [sys.modules[name] for name in missing if sys.modules.get(name) is not None]
        _arrived(*(module for module in loaded if module not in _thread.waiting))


def _arrived(*modules: ModuleType) -> None:
    _thread.waiting += modules
    if _thread.depth or _thread.held:
        return
    arrived, _thread.waiting = _thread.waiting, ()
    watched, seen = _state().watched, _state().seen
    fresh = []
    for module in arrived:
        name = module.__name__
        if sys.modules.get(name) is not module or (name in seen and seen[name].module is module):
            continue  # gone again, or executed again
        if name in watched and watched[name].unchanged():
            seen[name] = SeenModule(module, None)
            fresh.append(module)
    for module in fresh:
        seen[module.__name__] = SeenModule(module, watched[module.__name__].describe(module))


def _run(module: ModuleType, loader: Any) -> None:
    """Run a watched module by its own loader; it is there as soon as the outermost of such imports ends."""
    _thread.depth += 1
    try:
        loader.exec_module(module)
    finally:
        _thread.depth -= 1
    _arrived(module)
