"""Import hooks: kcl acts when the program imports certain modules, such as those of loopy.

Each hook is a finder in `sys.meta_path`. It finds no module itself: it changes the specifications (`ModuleSpec`) that
other finders return. There are two kinds. `run_modules` has a function of kcl run the module. A `Listener` is told when
an import begins and ends; the module's own loader runs it, so no frame of kcl is on the stack.

The base classes of `importlib.abc` would double the cost for a program that imports none of these modules.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import ModuleSpec
from threading import get_ident
from typing import Any


class Finder:
    """A finder that passes the specification of each module that it `attends` to `change`; other finders find it."""

    def __init__(self, attends: Callable[[str], object], change: Callable[[Any], None]) -> None:
        self._attends = attends
        self._change = change
        # The searches under way, by thread and module. This finder asks all finders, itself too,
        # and another one may do the same: a search within a search returns None.
        self._finding: set[tuple[int, str]] = set()
        self._is_removed = False

    def install(self) -> None:
        """Act on imports from now on."""
        self._is_removed = False
        for finder in [*sys.meta_path]:
            if isinstance(finder, Finder) and finder._is_removed:
                sys.meta_path.remove(finder)
        if self not in sys.meta_path:
            # At the head: a finder before it would answer first.
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Stop acting on imports."""
        # It stays in `sys.meta_path` until another finder is installed: another thread may be iterating over the list,
        # and would skip a finder.
        self._is_removed = True

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return the specification that the other finders return, after changing it."""
        if (
            self._is_removed
            or not self._attends(fullname)
            or (search := (get_ident(), fullname)) in self._finding
        ):
            return None
        finders = [getattr(finder, "find_spec", None) for finder in sys.meta_path]
        specs = (find(fullname, path, target) for find in finders if find is not None)
        self._finding.add(search)
        try:
            spec: Any = next((other for other in specs if other is not None), None)
        finally:
            self._finding.discard(search)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._change(spec)
        return spec


def run_modules(attends: Callable[[str], object], run: Callable[[Any, Any], None]) -> Finder:
    """Return a finder with which `run(module, loader)` runs each attended module, by `loader.exec_module(module)`."""

    def change(spec: Any) -> None:
        spec.loader = _Loader(spec.loader, run)

    return Finder(attends, change)


class Listener(Finder):
    """A finder that is told when imports of a group of modules begin and end; reloads do not count.

    `group` names the group of a module; a module without one is left alone. `begins(group)` is called when the first
    import of a group begins. `ended(names)` is called when no import of the group is under way any more, with the
    names of the modules that were imported.
    """

    def __init__(
        self,
        group: Callable[[str], str],
        ended: Callable[[list[str]], None] = lambda _names: None,
        begins: Callable[[str], object] = lambda _group: None,
    ) -> None:
        super().__init__(group, self._change_class)
        self._group = group
        self.receive(ended, begins)
        # By group: the specification of each import under way, with its thread. The address is the key, since
        # two imports may have equal specifications.
        self._under_way = defaultdict[str, dict[int, int]](dict)
        # By group: the names of modules whose import ended while another one was under way.
        self._waiting = defaultdict[str, list[str]](list)

    def receive(self, ended: Callable[[list[str]], None], begins: Callable[[str], object]) -> None:
        """Replace the functions that are called when imports begin and end."""
        self._ended, self._begins = ended, begins

    def is_under_way(self) -> bool:
        """Return True if an import is under way."""
        return any(self._under_way.values())

    def forget_other_threads(self) -> None:
        """Forget the imports of other threads: in a forked child those threads are gone, and never end them."""
        for imports in self._under_way.values():
            for spec in [spec for spec, thread in imports.items() if thread != get_ident()]:
                del imports[spec]

    def _change_class(self, spec: Any) -> None:
        if type(spec) is ModuleSpec:
            self.take(spec)

    def take(self, spec: ModuleSpec) -> None:
        """Listen to the import of a module; an earlier listener of it is replaced."""
        # Python has no call for the begin and end of an import, but it notes both in the specification.
        vars(spec)["_kcl_listener"] = self
        spec.__class__ = _Specification

    def hear(self, spec: ModuleSpec, begins: bool) -> None:
        """Take note that the import of a module begins or ends, and call `begins` or `ended` if it is time."""
        group = self._group(spec.name)
        under_way = self._under_way[group]
        if begins:
            if not under_way:
                self._begins(group)
            under_way[id(spec)] = get_ident()
            return
        under_way.pop(id(spec), None)
        waiting, names = self._waiting[group], list[str]()
        waiting.append(spec.name)
        # One name at a time: another thread may end an import of the group now, and take the rest.
        with suppress(IndexError):
            while not under_way:
                names.append(waiting.pop(0))
        if names:
            self._ended(names)


class _Specification(ModuleSpec):
    """A specification that tells its listener when the import of its module begins and ends."""

    # Python sets this private attribute to True before it executes a module, then to False.
    @property
    def _initializing(self) -> bool:
        return bool(vars(self).get("_initializing"))

    @_initializing.setter
    def _initializing(self, begins: bool) -> None:
        vars(self)["_initializing"] = begins
        listener: Listener = vars(self)["_kcl_listener"]
        if not begins:
            del vars(self)["_kcl_listener"]
            # From here on the specification is a plain one: a reload is not heard.
            self.__class__ = ModuleSpec  # type: ignore[assignment]
        listener.hear(self, begins)


class _Loader:
    """A loader that has `run` execute the module; the module's attributes show the original loader."""

    def __init__(self, own: Any, run: Callable[[Any, Any], None]) -> None:
        self._kcl_own = own
        self._kcl_run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kcl_own, name)

    def exec_module(self, module: Any) -> None:
        """Let `run` run the module with its own loader."""
        # Before the code runs, which may ask for the loader of its module.
        for owner, name in ((module.__spec__, "loader"), (module, "__loader__")):
            if getattr(owner, name, None) is self:
                setattr(owner, name, self._kcl_own)
        self._kcl_run(module, self._kcl_own)
