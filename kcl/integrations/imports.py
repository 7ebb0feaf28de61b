"""What waits for the import of a package: it is told as soon as the package's own code has run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from kcl.base import spans


class Imports:
    """A finder in front of all others, which knows of no module itself and has the others find it.

    The base classes of `importlib.abc` would double what a program pays that imports neither package.
    """

    def __init__(self, rows: Mapping[str, Any], ready: Callable[[Any, Any], None]) -> None:
        self.done: set[str] = set()
        self._rows = dict(rows)
        self._ready = ready
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Wait for no import any more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return the specification that the other finders have, with a loader that tells when the package is there."""
        row = self._rows.get(fullname)
        if row is None or fullname in self.done:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        found: Any = next((one for one in specs if one is not None), None)
        if found is None or found.loader is None:
            return None
        found.loader = _Telling(found.loader, lambda module: self._ready(row, module))
        return found


class _Telling:
    """A loader of another one's module; the module shows that one's."""

    def __init__(self, own: Any, ready: Callable[[Any], None]) -> None:
        self._own = own
        self._ready = ready

    def create_module(self, spec: Any) -> Any:
        """Return what the other loader makes."""
        return self._own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Run the module as the other loader does, and tell that it is there.

        A package that opens its caches meanwhile gets a private directory where it cannot use the user's.
        """
        module.__spec__.loader = module.__loader__ = self._own
        from kcl import caches

        with spans.span(f"import {module.__name__}"):
            caches.with_usable_cache(lambda: self._own.exec_module(module))
        self._ready(module)
