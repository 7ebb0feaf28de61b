"""kcl in the places of others: functions of its own there, and a finder that attends to imports.

The finder finds no module itself, and runs some of the modules that other finders find. A `Listener` leaves the running to
the loader: no frame of kcl's stands below the code of a module. The base classes of `importlib.abc` would double the cost
for a program that imports no attended module.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import FunctionType
from typing import Any


class Finder:
    """A finder in front of others, which find the modules that it `attends`; `run` runs each of these.

    `run` gets the module and the module's own loader, and calls the loader's `exec_module`.
    """

    def __init__(self, attends: Callable[[str], bool], run: Callable[[Any, Any], None]) -> None:
        self._attends = attends
        self._run = run
        # thread and module: two finders like this one may ask each other
        self._finding: set[tuple[int, str]] = set()

    def install(self) -> None:
        """Attend to imports from now on."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Stop attending to imports."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return the specification of the other finders, with a loader that lets `run` run the module."""
        search = get_ident(), fullname
        if search in self._finding or not self._attends(fullname):
            return None
        finders = list(sys.meta_path)
        # one of those may be like this one
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        others = [getattr(finder, "find_spec", None) for finder in behind]
        specs = (find(fullname, path, target) for find in others if find is not None)
        self._finding.add(search)
        try:
            found: Any = next((spec for spec in specs if spec is not None), None)
        finally:
            self._finding.discard(search)
        if found is not None and hasattr(found.loader, "exec_module"):
            self._attend(found)
        return found

    def _attend(self, found: Any) -> None:
        found.loader = _Loader(found.loader, self._run)


class Listener(Finder):
    """A finder that calls `ended` with the names of modules, once no import of their top-level package is under way."""

    def __init__(self, attends: Callable[[str], bool], ended: Callable[[list[str]], None]) -> None:
        super().__init__(attends, lambda module, loader: loader.exec_module(module))
        self._ended = ended
        self._under_way = Counter[str]()  # imports by top-level package
        self._waiting: dict[str, list[str]] = {}

    def _attend(self, found: Any) -> None:
        if type(found) is ModuleSpec:
            vars(found)["_kcl_listener"] = self
            found.__class__ = _Specification

    def tell(self, name: str, begins: bool) -> None:
        """Hear that the import of a module begins or ends."""
        top = name.partition(".")[0]
        self._under_way[top] += 1 if begins else -1
        if not begins:
            self._waiting.setdefault(top, []).append(name)
            if not self._under_way[top]:
                self._ended(self._waiting.pop(top))


class _Specification(ModuleSpec):
    """A specification in which Python notes that the import of its module begins, and that it ended."""

    @property
    def _initializing(self) -> bool:
        return bool(vars(self)["_initializing"])

    @_initializing.setter
    def _initializing(self, begins: bool) -> None:
        vars(self)["_initializing"] = begins
        listener: Listener = vars(self)["_kcl_listener"]
        if not begins:
            del vars(self)["_kcl_listener"]
            self.__class__ = ModuleSpec  # type: ignore[assignment]
        listener.tell(self.name, begins)


class _Loader:
    """A loader around another loader; the module shows the other one."""

    def __init__(self, own: Any, run: Callable[[Any, Any], None]) -> None:
        self._kcl_own = own
        self._kcl_run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kcl_own, name)

    def exec_module(self, module: Any) -> None:
        """Let `run` run the module with its own loader."""
        for owner, name in ((module.__spec__, "loader"), (module, "__loader__")):
            if getattr(owner, name, None) is self:
                setattr(owner, name, self._kcl_own)
        self._kcl_run(module, self._kcl_own)


def below_kcl(value: Any) -> Any:
    """Return what stands below kcl's own functions, which call it."""
    while is_of_kcl(value):
        below = value.__dict__.get("__wrapped__")
        if below is None:
            break
        value = below
    return value


def is_of_kcl(value: Any) -> bool:
    """Return True for a function of kcl's own. No attribute tells: `functools.wraps` would copy it."""
    return isinstance(value, FunctionType) and str(value.__globals__.get("__name__")).startswith(
        "kcl."
    )


def uncounted(function: Any) -> None:
    """Have warnings that code gives below a function name the line of its caller, as if the function were not there.

    Python does not count the frames of its import; this makes the function's frame one of them.
    """
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
