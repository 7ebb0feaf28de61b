"""The names that code reads: from a global, a cell or an import through modules to the value that counts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from kcl.record import distributions
from kcl.record.callables import pure
from kcl.record.callables.facts import CELL, IMPORT, UNKNOWN, Reference

CURE = "compute it before the call, or give the callable's class a method __kcl_key__() that returns what counts"
_MISSING = object()


def follow(walk: Any, read: Reference, function: FunctionType, cells: Mapping[str, Any], label: str) -> None:
    """Count what a read of a function's code leads to."""
    scope, name = function.__globals__, read.name
    if read.root == IMPORT:
        _imported(walk, read, scope, label)
        return
    if read.root == CELL:
        try:
            value = cells[name].cell_contents
        except (KeyError, ValueError):
            value = _MISSING
    else:
        value = scope.get(name, _MISSING)
        if value is _MISSING:
            value = _builtins(function).get(name, _MISSING)
            if getattr(value, "__module__", "").startswith("kcl."):  # kcl's own stands for Python's
                walk.judge(f"builtins.{name}")
    if value is _MISSING:
        walk.add(f"{read.root} {name} in {label}", "<absent>")
    else:
        _chain(walk, f"{read.root} {name}", value, read.attributes, label)


def _chain(walk: Any, path: str, value: Any, attributes: tuple[str, ...], label: str) -> None:
    """Count the value that attributes of modules lead to; what stands behind it belongs to the value."""
    for first in attributes:
        if not isinstance(value, ModuleType):
            break
        lazy = vars(value).get("__kcl_lazy_module__")
        module = lazy if isinstance(lazy, str) else value.__name__
        if module.partition(".")[0] in pure.GENERATORS and not isinstance(vars(value).get(first), ModuleType):
            _of_generators(walk, f"{path} {module}", module, first, label)
            return
        if module.partition(".")[0] == "kcl":  # which loads its names as they are used
            walk.add(f"{path} in {label}", walk.judge(f"{module}.{first}"))
            return
        if walk.lenient and not walk.is_walked(module):
            walk.note(module)
        if value is not sys.modules.get(module) and isinstance(lazy, str):
            if walk.lenient:  # its code counts, loaded or not
                walk.modules.add(module)
                return
            value = sys.modules.get(module, value)
        path = f"{path}.{first}"
        inner = vars(value).get(first, _MISSING)
        if inner is _MISSING:
            inner = sys.modules.get(f"{module}.{first}", _MISSING)
        if inner is _MISSING:
            if not walk.lenient:
                walk.refuse(f"uses {module}.{first}, which the module does not hold now; import it before")
            walk.note(module)
            walk.add(f"{path} in {label}", "<absent>")
            return
        value = inner
    text = walk.encode(value)
    last = path.rpartition(" ")[2].rpartition(".")[2]
    if text not in (f"function {last}", f"class {last}", f"builtins.{last}"):
        walk.add(f"{path} in {label}", text)


def _of_generators(walk: Any, path: str, module: str, name: str, label: str) -> None:
    """Count a name of a generator, whose module is loaded or not."""
    held = vars(sys.modules.get(module, pure)).get(name)
    is_foreign = isinstance(held, ModuleType) or name in sys.stdlib_module_names or name == "np"
    if is_foreign and not walk.lenient:
        walk.refuse(f"uses {module}.{name}, which is no name of its own")
    walk.add(f"{path} in {label}", walk.judge(f"{module}.{name}"))


def _imported(walk: Any, read: Reference, scope: Mapping[str, Any], label: str) -> None:
    """Count an import in the body of a function: the names that it takes of the module."""
    module = absolute(read, scope)
    top = module.partition(".")[0]
    is_walked = walk.is_walked(module)
    if read.name == UNKNOWN:
        walk.refuse("imports in a way that kcl cannot read")
    if not read.attributes and not walk.lenient:
        walk.refuse(f"imports {module} in its body; import it at the head of the file, or name what it takes of it")
    if top in pure.GENERATORS or module == "kcl.loopy":
        of = module if top in pure.GENERATORS else "loopy"
        walk.note(of.partition(".")[0])
        for name in read.attributes:
            _of_generators(walk, f"import {of}", of, name, label)
    elif walk.lenient and is_walked:
        walk.modules.update([module, *(f"{module}.{name}" for name in read.attributes)])
    elif walk.lenient:
        walk.note(module)
    elif is_walked and module not in sys.modules:
        walk.refuse(f"imports {module}, which is not imported yet; import it at the head of the file")
    elif not is_walked and distributions.owner(module).kind != distributions.KCL and not pure.has_module(module):
        walk.refuse(f"imports {module}, which is not on kcl's list of what is pure; {CURE}")
    else:
        __import__(module)
        for name in read.attributes:
            _chain(walk, f"import {module}", sys.modules[module], (name,), label)


def _builtins(function: FunctionType) -> Mapping[str, Any]:
    found: Any = function
    scope: Mapping[str, Any] = found.__builtins__
    return scope


def absolute(read: Reference, scope: Mapping[str, Any]) -> str:
    """Return the full name of the module that a function imports."""
    if not read.level:
        return read.name
    name = str(scope.get("__name__", ""))
    package = scope.get("__package__") or (name if "__path__" in scope else name.rpartition(".")[0])
    base = str(package).rsplit(".", read.level - 1)[0]
    return f"{base}.{read.name}" if read.name else base
