"""Postponed modules: a module is executed at the first use of one of its attributes.

`pyopencl.invoker` opens a dictionary on disk as it is imported, which takes 3 ms of the processor in a warm start.
Making kernel objects needs it in `sys.modules`, and seldom uses it. The module object in its place later becomes the
module itself, so an import elsewhere never holds an object that was replaced.

This suits modules of functions and classes, like `pyopencl.invoker`. During its execution other threads see the names
defined so far. Attributes set before are overwritten, and the module must not ask itself for names that it may lack.
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
    """The lock: held while a thread executes or changes a module; its holder may use attributes.

    A forked child repeats an execution that another thread of the parent had begun.
    """


_state = process.shared(State)


def lock() -> threading.RLock:
    """Return the current lock; a forked child has a new one."""
    return _state().lock


def module(name: str) -> ModuleType:
    """Return a module of a package, already imported or to be imported at the first use of an attribute.

    It can be imported without a usable cache directory, as with `kcl.caches.import_anyway`. Raises ImportError for a
    missing module. Thread-safe: while another thread imports the module, the module of that thread is returned.
    """
    known = sys.modules.get(name)
    if known is not None and not getattr(getattr(known, "__spec__", None), "_initializing", False):
        return known  # without the import lock, which Python 3.10 does not give back where a signal handler raises
    spec = None if known is not None else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return importlib.import_module(name)  # waits for another thread's import; raises the right error
    made = importlib.util.module_from_spec(spec)
    made.__class__ = _Postponed
    package, _, attribute = name.rpartition(".")
    parent = vars(sys.modules[package])
    parent.setdefault(attribute, made)
    sys.modules.setdefault(name, made)
    found = importlib.import_module(name)  # may be the module of another thread that was faster
    if found is not made and parent.get(attribute) is made:
        parent[attribute] = found
    return found


class _Postponed(ModuleType):
    """A module that has not been executed yet."""

    def __getattr__(self, name: str) -> Any:
        _execute(self)
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        _execute(self)
        return dir(self)


def _execute(found: ModuleType) -> None:
    """Execute the module; after a failure the next use of an attribute tries again."""
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
