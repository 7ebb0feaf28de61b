"""Modules that are imported when somebody asks them for something, and not before.

`pyopencl.invoker` opens a dictionary on disk as it is imported, which takes 3 ms of the processor in a warm start.
Who makes kernel objects needs it in `sys.modules`, and seldom needs anything of it. The module object that lies there
meanwhile becomes the module itself: nothing is taken out again that an import elsewhere may have found.

This is for modules of functions and classes, as that one is. While it is executed, other threads see of it what is
defined already, what was set on it before is overwritten, and it must not ask itself for names that it may lack.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

from kcl.base import process
from kcl.caches import with_usable_cache


class State(process.LockedState):
    """The lock: held while a module is executed, and by those who change one; a holder may ask for something.

    What a thread had begun that is not in a forked child is done again there.
    """


_state = process.shared(State)


def lock() -> threading.RLock:
    """Return the lock as it is now; a forked child has a new one."""
    return _state().lock


def module(name: str) -> ModuleType:
    """Return a module of a package, imported already or to be imported when its first attribute is asked for.

    It can be imported without a usable cache directory, as with `kcl.caches.import_anyway`. Raises ImportError where
    there is no such module. Thread-safe: where another thread is importing it meanwhile that one's module is returned.
    """
    known = sys.modules.get(name)
    if known is not None and not getattr(getattr(known, "__spec__", None), "_initializing", False):
        return known  # without the import lock, which Python 3.10 does not give back where a signal handler raises
    spec = None if known is not None else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return importlib.import_module(name)  # waits where another thread is importing it; says what is wrong
    made = importlib.util.module_from_spec(spec)
    made.__class__ = _Postponed
    package, _, attribute = name.rpartition(".")
    parent = vars(sys.modules[package])
    parent.setdefault(attribute, made)
    sys.modules.setdefault(name, made)
    found = importlib.import_module(name)  # another thread's, where that came in between
    if found is not made and parent.get(attribute) is made:
        parent[attribute] = found
    return found


class _Postponed(ModuleType):
    """A module of which nothing has been executed yet."""

    def __getattr__(self, name: str) -> Any:
        _execute(self)
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        _execute(self)
        return dir(self)


def _execute(found: ModuleType) -> None:
    """Make the module what it is; where that fails it is tried again when somebody asks the next time."""
    with _state().lock:
        if not isinstance(found, _Postponed):
            return
        spec: Any = found.__spec__
        before = set(vars(found))
        try:
            with_usable_cache(lambda: spec.loader.exec_module(found))
        except BaseException:
            for name in vars(found).keys() - before:
                delattr(found, name)
            raise
        found.__class__ = ModuleType  # type: ignore[assignment]
