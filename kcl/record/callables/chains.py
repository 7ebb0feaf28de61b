"""Chains of names: from a reference in a function's code to the value that it leads to.

A chain starts at a global, a cell or an imported module and goes through modules by their attributes. The chain's end
is encoded as a value, or the walk that owns the chains takes note of it.
"""

from __future__ import annotations

import builtins
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from kcl.errors import UnknownInput
from kcl.record.callables import distributions, import_watch, source_modules, unkeyable
from kcl.record.callables.distributions import ABSENT, DISTRIBUTION, PYTHON, USER
from kcl.record.callables.references import CELL, IMPORT, NAME, TOUCH, UNKNOWN, Reference

MISSING = object()  # stands for the value of a name that is not bound
_DATA = frozenset({bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset})
_CONSTANTS = frozenset({"None", "True", "False", "Ellipsis", "NotImplemented", "__debug__", "__doc__"})
# names under which a module stores its own place
_ABOUT_PLACE = frozenset(
    (
        *("__file__", "__name__", "__path__", "__package__", "__cached__"),
        *("__spec__", "__loader__", "__builtins__", "__annotations__"),
    )
)


class Chains:
    """The chains that one walk has followed."""

    def __init__(self, walk: Any) -> None:  # a Walk, whose module imports this one
        self.walk = walk
        self.followed: set[tuple[int, str, tuple[str, ...]]] = set()
        self.unloaded: set[str] = set()  # libraries that are taken note of, and that no module has imported
        self.placed = False  # the code asks for its own place

    def follow(self, reference: Reference, names: dict[str, Any], cells: dict[str, Any], label: str) -> None:
        """Take note of the value that one reference in a function leads to."""
        root, name = reference.root, reference.name
        if root in (TOUCH, IMPORT):
            self.imported(reference, names, label)
        elif root == CELL:
            if name in cells and (id(cells[name]), name, reference.attributes) not in self.followed:
                self.followed.add((id(cells[name]), name, reference.attributes))
                try:
                    value = cells[name].cell_contents
                except ValueError:
                    self.walk.add(f"closure {name} in {label}", "<empty>")
                    return
                self.value("closure", value, name, reference.attributes, label)
        elif (id(names), name, reference.attributes) not in self.followed:
            self.followed.add((id(names), name, reference.attributes))
            value = names.get(name, MISSING)
            if name in _ABOUT_PLACE:
                if root != NAME:  # the body of a class reads the name that it stores as __module__
                    self.place(name, value, label)
            elif value is not MISSING:
                self.value("global", value, name, reference.attributes, label)
            elif root != NAME or name in builtins.__dict__:
                self.builtin_name(reference, names, label)

    def builtin_name(self, reference: Reference, names: dict[str, Any], label: str) -> None:
        """Take note of a name that is not among the globals."""
        name = reference.name
        scope = names.get("__builtins__", builtins)
        value = (scope if isinstance(scope, dict) else scope.__dict__).get(name, MISSING)
        if value is MISSING:
            self.walk.add(f"global {name} in {label}", ABSENT)
        elif isinstance(value, FunctionType):
            self.value("global", value, name, reference.attributes, label)
        elif isinstance(value, BuiltinFunctionType) or (isinstance(value, type) and value.__module__ == "builtins"):
            self.walk.judge(f"builtins.{name}")
            if value.__name__ != name:
                self.walk.add(f"global {name} in {label}", f"builtins.{value.__name__}")
        elif name not in _CONSTANTS and type(value).__module__ != "_sitebuiltins":
            self.value("global", value, name, reference.attributes, label)

    def place(self, name: str, value: Any, path: str) -> None:
        """Take note of a value that a module stores about its place; the module's name may decide the outcome."""
        self.placed = True
        if name in ("__name__", "__package__"):
            self.walk.add(f"global {name} in {path}", str(value))

    def value(self, scope: str, value: Any, path: str, attributes: tuple[str, ...], label: str) -> None:
        """Take note of a variable, or of the value that a chain of attributes of modules leads to."""
        while attributes and isinstance(value, ModuleType):
            lazy = value.__dict__.get("__kcl_lazy_module__")
            if isinstance(lazy, str):
                self.through(lazy, attributes, scope, path, label)
                return
            library = self.walk.owner(value.__name__).kind != USER and not _is_namespace(value)
            if library or self.covers(value.__name__, value):
                self.through(value.__name__, attributes, scope, path, label)
                if library and scope != "import":
                    self.data(value, attributes[0], path, label)
                return
            first, attributes = attributes[0], attributes[1:]
            if first == UNKNOWN:
                self.walk.refuse(
                    f"getattr takes a name of module {path} that is computed; write {path}.<name>, pass the value as "
                    f"a parameter of the recipe, or declare {path} with @kcl.kernel(depends=[{path}])"
                )
            if first in _ABOUT_PLACE:
                self.place(first, value.__dict__.get(first), path)
                return
            if first == "__dict__":
                break
            path = f"{path}.{first}"
            inner = value.__dict__.get(first, MISSING)
            if inner is MISSING:
                self.missing(value, first, attributes, scope, path, label)
                return
            value = inner
        if attributes and isinstance(value, type):
            self.walk.judge(".".join((value.__module__, value.__qualname__, *attributes)))
        self.bare(scope, value, path, label)

    def bare(self, scope: str, value: Any, path: str, label: str) -> None:
        """Count a value that is used as it is; a function or class under its own name needs no part of its own."""
        text = self.walk.encoder.encode(value)
        last = path.rpartition(".")[2]
        if text not in (f"function {last}", f"class {last}"):
            self.walk.add(f"{scope} {path} in {label}", text)

    def knowable(self, scope: str, value: Any, path: str, label: str) -> None:
        """Count a value as `bare` does; count nothing where its content cannot be known."""
        try:
            self.bare(scope, value, path, label)
        except UnknownInput:
            self.walk.located = False

    def missing(self, module: ModuleType, name: str, rest: tuple[str, ...], scope: str, path: str, label: str) -> None:
        """Take note of a name that a module of the user lacks: a submodule not yet imported, a hook, or nothing."""
        hook = module.__dict__.get("__getattr__")
        inner = f"{module.__name__}.{name}"
        if hasattr(module, "__path__") and (inner in sys.modules or source_modules.exists(inner)):
            self.through(inner, rest, scope, path, label)
        else:
            self.walk.add(f"{scope} {path} in {label}", ABSENT if hook is None else self.walk.encoder.encode(hook))

    def through(self, module: str, attributes: tuple[str, ...], scope: str, path: str, label: str) -> None:
        """Take note of attributes of a module that is named, loaded or not."""
        whose = self.walk.owner(module)
        if whose.kind in (USER, ABSENT):
            loaded = sys.modules.get(module)
            if whose.kind == USER and loaded is not None and not self.covers(module, loaded):
                self.value(scope, loaded, path, attributes, label)
            else:
                self.walk.add(f"{scope} {path} in {label}", self.walk.static.whole(module, loaded))
                self.walk.static.below(module, attributes)
                self.changed(module, attributes, path, label)
            return
        dotted = self.walk.library(module, attributes, whose)
        if scope != "import" and (0, path, (module,)) not in self.followed:
            self.followed.add((0, path, (module,)))
            if path != module:
                self.walk.add(f"{scope} {path} in {label}", f"module {module}")
        if module == "sys" and attributes and attributes[0] in unkeyable.MACHINE:
            self.walk.add(f"{dotted} in {label}", self.walk.encoder.encode(getattr(sys, attributes[0])))
        elif whose.kind in (DISTRIBUTION, PYTHON) and attributes:
            self.patched(module, attributes, dotted, label)

    def covers(self, name: str, module: ModuleType) -> bool:
        """Tell whether a loaded module counts by its source, so that only what was changed in it is looked at."""
        return module is not self.walk.subject and import_watch.covers(name) and sys.modules.get(name) is module

    def changed(self, module: str, attributes: tuple[str, ...], path: str, label: str) -> None:
        """Take note of what was changed at run time in a module that counts by its source."""
        before = import_watch.facts(module)
        if before is None:
            return
        loaded = sys.modules[module]
        first = attributes[0] if attributes else UNKNOWN
        whole = first in (UNKNOWN, "__dict__")
        if first in _ABOUT_PLACE:
            return
        if not whole and first not in before and first not in loaded.__dict__:
            first = "__getattr__"
        for name in sorted({*before, *held(loaded)}) if whole else (first,):
            if _is_submodule(loaded, name):
                continue
            now = self.walk.fact(loaded, name)
            if now.startswith(UNKNOWN) and not whole:
                self.walk.refuse(now.removeprefix(UNKNOWN))
            elif now and now != before.get(name, ABSENT):
                self.walk.add(f"changed {path}.{name} in {label}", now)
        inner = loaded.__dict__.get(first)
        if isinstance(inner, ModuleType) and self.covers(inner.__name__, inner):
            self.changed(inner.__name__, attributes[1:], f"{path}.{first}", label)

    def data(self, module: ModuleType, name: str, path: str, label: str) -> None:
        """Count plain data of a library that the user's module has imported: a program may have set it.

        Where only the recipe imports it, one process has loaded it when the key is computed, and another has not.
        """
        value = module.__dict__.get(name)
        whose = self.walk.owner(module.__name__)
        if type(value) in _DATA and module is not sys and whose.kind in (DISTRIBUTION, PYTHON):
            self.knowable("value", value, f"{path}.{name}", label)

    def patched(self, module: str, attributes: tuple[str, ...], dotted: str, label: str) -> None:
        """Take note of a function or class of the user's that was put into a library."""
        value: Any = sys.modules.get(module)
        for name in attributes:
            if not isinstance(value, (ModuleType, type)):
                return
            value = value.__dict__.get(name)
        if isinstance(value, (FunctionType, type)):
            origin = value.__globals__.get("__name__") if isinstance(value, FunctionType) else value.__module__
            if origin != module and (not isinstance(origin, str) or self.walk.owner(origin).kind == USER):
                self.walk.add(f"replaced {dotted} in {label}", self.walk.encoder.encode(value))

    def imported(self, reference: Reference, names: dict[str, Any], label: str) -> None:
        """Take note of an import statement in a function, or of what is taken from the module it binds."""
        if reference.name in self.unloaded and not reference.level and unkeyable.verdict(reference.dotted) is None:
            return
        module = reference.module(_package(names))
        if sys.modules.get(module, MISSING) is None:
            self.walk.add(f"import {module} in {label}", "blocked")
        attributes = reference.attributes
        if reference.root == IMPORT and attributes and distributions.is_namespace(module):
            module, attributes = f"{module}.{attributes[0]}", attributes[1:]
        key = (reference.root, module, attributes)
        if key in self.followed:
            return
        self.followed.add(key)
        if reference.root == TOUCH:
            whose = self.walk.owner(module)
            if whose.kind not in (USER, ABSENT):
                if whose.kind == PYTHON:
                    return
                for name in reference.attributes or ("",):
                    self.walk.library(module, (name,) if name else (), whose)
                if whose.kind == DISTRIBUTION and module not in sys.modules:
                    self.unloaded.add(module)
                return
            loaded = sys.modules.get(module)
            if loaded is None or self.covers(module, loaded):  # what it does while it is imported may be all
                self.walk.static.whole(module, loaded)
                for name in attributes:
                    self.walk.static.below(module, (name,))
            return
        self.through(module, attributes, "import", module, label)


def held(module: ModuleType) -> list[str]:
    """List the names in a module that are not about its place."""
    return [name for name in module.__dict__ if name not in _ABOUT_PLACE]


def _is_submodule(module: ModuleType, name: str) -> bool:
    """Tell whether a name in a package is what the import of a module below it has set."""
    value = module.__dict__.get(name)
    return isinstance(value, ModuleType) and sys.modules.get(f"{module.__name__}.{name}") is value


def _is_namespace(module: ModuleType) -> bool:
    """Tell whether a package only holds others, which several distributions may have brought."""
    return module.__dict__.get("__file__") is None and "__path__" in module.__dict__


def _package(names: dict[str, Any]) -> str:
    """Return the package that the imports of a module are relative to."""
    name = str(names.get("__name__", ""))
    return names.get("__package__") or (name if "__path__" in names else name.rpartition(".")[0])
