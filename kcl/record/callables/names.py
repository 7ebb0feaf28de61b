"""The names that code reads: from a global, a cell or an import through modules to the value that counts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from kcl.record.callables import pure
from kcl.record.callables.facts import CELL, IMPORT, UNKNOWN, Reference

CURE = "compute it before the call, or give the callable's class a method __kcl_key__() that returns what counts"
_MISSING = object()


def follow(walk: Any, read: Reference, function: FunctionType, cells: Mapping[str, Any], label: str) -> None:
    """Count what a read of a function's code leads to."""
    if read.root == IMPORT:
        _imported(walk, read, function.__globals__, label)
        return
    value = _value(walk, read, function, cells)
    if value is _MISSING:
        walk.add(f"{read.root} {read.name} in {label}", "<absent>")
    else:
        _chain(walk, f"{read.root} {read.name}", value, read.attributes, label)


def _value(walk: Any, read: Reference, function: Any, cells: Mapping[str, Any]) -> Any:
    if read.root == CELL:
        try:
            return cells[read.name].cell_contents
        except ValueError:
            return _MISSING
    if read.name in function.__globals__:
        return function.__globals__[read.name]
    value = function.__builtins__.get(read.name, _MISSING)
    if getattr(value, "__module__", "").startswith("kcl."):  # kcl's own stands for Python's
        walk.judge(f"builtins.{read.name}")
    return value


def _chain(walk: Any, path: str, value: Any, attributes: tuple[str, ...], label: str) -> None:
    """Count the value that attributes of modules lead to; what stands behind it belongs to the value."""
    for first in attributes:
        if not isinstance(value, ModuleType):
            break
        module, loaded = real_module(value)
        inner = vars(loaded).get(first, sys.modules.get(f"{module}.{first}", _MISSING))
        top = module.partition(".")[0]
        if top == "kcl" or (top in pure.GENERATORS and (walk.lenient or not isinstance(inner, ModuleType))):
            _by_name(walk, path, module, first, label)
            return
        is_lazy = inner is _MISSING or "__kcl_lazy_module__" in vars(value)
        if walk.lenient and (is_lazy or not walk.is_walked(module)):
            break
        if inner is _MISSING:
            walk.refuse(f"uses {module}.{first}, which the module does not hold now; import it before")
        path, value = f"{path}.{first}", inner
    text = walk.encode(value)
    last = path.rpartition(" ")[2].rpartition(".")[2]
    if text not in (f"function {last}", f"class {last}", f"builtins.{last}"):
        walk.add(f"{path} in {label}", text)


def real_module(module: ModuleType) -> tuple[str, ModuleType]:
    """Return the name of a module, and itself; of a lazy one those of the module that it loads at its first use."""
    lazy = vars(module).get("__kcl_lazy_module__")
    return (lazy, sys.modules.get(lazy, module)) if isinstance(lazy, str) else (module.__name__, module)


def _by_name(walk: Any, path: str, module: str, name: str, label: str) -> None:
    """Count a name of a generator, whose module is loaded or not, or of kcl, which loads its names as they are used."""
    if not walk.lenient and (name == "np" or name in sys.stdlib_module_names):
        walk.refuse(f"uses {module}.{name}, which is no name of its own")
    walk.add(f"{path} {module} in {label}", walk.judge(f"{module}.{name}"))


def _imported(walk: Any, read: Reference, scope: Mapping[str, Any], label: str) -> None:
    """Count an import in the body of a function: the names that it takes of the module."""
    if read.name == UNKNOWN:
        walk.refuse("imports in a way that kcl cannot read")
    module = absolute(read, scope)
    module = "loopy" if module == "kcl.loopy" else module
    if walk.lenient:
        for name in (module, *[f"{module}.{name}" for name in read.attributes[:1] if walk.is_walked(module)]):
            walk.note_module(name)
        return
    if not read.attributes:
        walk.refuse(f"imports {module} in its body in an unusual way; import it at the head of the file")
    is_known = module in sys.modules if walk.is_walked(module) else pure.has_module(module)
    if not is_known:
        walk.refuse(f"imports {module}, which is not imported yet or not on kcl's list of what is pure; {CURE}")
    if module.partition(".")[0] not in pure.GENERATORS:
        __import__(module)
    _chain(walk, f"import {module}", sys.modules.get(module) or ModuleType(module), read.attributes, label)


def absolute(read: Reference, scope: Mapping[str, Any]) -> str:
    """Return the full name of the module that a function imports."""
    if not read.level:
        return read.name
    name = str(scope.get("__name__", ""))
    package = scope.get("__package__") or (name if "__path__" in scope else name.rpartition(".")[0])
    base = str(package).rsplit(".", read.level - 1)[0]
    return f"{base}.{read.name}" if read.name else base
