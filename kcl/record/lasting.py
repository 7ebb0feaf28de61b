"""Objects that last: nothing in them changes after a call, and loopy runs no code of the user with them.

Members of enumerations, instances of frozen dataclasses, and tags without attributes last if their parts do. An object
of the user does not last if its class redefines a name of a base class: loopy may run that code during the call.
"""

from __future__ import annotations

import os
import sys
from types import FunctionType
from typing import Any

from kcl.errors import UnknownInput
from kcl.record.callables.classes import HEAP, NOT_IN_CLASS, SLOTS, attributes, enum_type
from kcl.record.plain import SIMPLE

_LIBRARIES = frozenset({"builtins", "loopy", "pymbolic", "islpy", "pytools", "numpy", "constantdict", "immutables"})
_PYTHON_ONLY = frozenset({"loopy", "pymbolic", "pytools"})
_IMMUTABLE = frozenset({"islpy", "constantdict", "immutables"})  # packages whose objects hide an immutable content
_BUILTIN: tuple[Any, ...] = (str, bytes, int, float, complex, tuple, frozenset)
_PYTHON = os.path.dirname(os.__file__) + os.sep
_INSTALLED = _PYTHON + "site-packages"


def require(value: Any) -> None:
    """Raise UnknownInput if an object, or a part of it, may change, or if a class of them redefines something."""
    waiting, seen = [value], {id(value): value}
    while waiting:
        one = waiting.pop()
        parts = [] if type(one) is str or type(one) in SIMPLE else _lasting_parts(one)
        if parts is None:
            kind = type(value)
            raise UnknownInput(f"an object of {kind.__module__}.{kind.__qualname__} may change after the call")
        for part in parts:
            if id(part) not in seen:
                seen[id(part)] = part  # which keeps its id
                waiting.append(part)


def _lasting_parts(value: Any) -> list[Any] | None:
    """List the values that decide whether an object lasts; None if it does not."""
    kind = type(value)
    if kind is slice:
        return [value.start, value.stop, value.step]
    if isinstance(value, type):
        return [] if _is_library(value) else None
    if _is_library(kind):
        package = kind.__module__.partition(".")[0]
        if package in _IMMUTABLE:
            return [part for pair in value.items() for part in pair] if hasattr(value, "items") else []
        numpy: Any = sys.modules.get("numpy")
        if package == "numpy" and isinstance(value, (numpy.dtype, numpy.generic)):
            return [] if kind is not numpy.void else None
    elif _overrides(kind):
        return None
    if not _is_frozen(value):
        return None
    if isinstance(kind, enum_type()):
        return [value._value_]
    items = [*value] if isinstance(value, (tuple, frozenset)) else []
    return items + [part for _name, part in attributes(value, _is_library(kind))]


def _is_frozen(value: Any) -> bool:
    """Return True if an object has a content that Python keeps from changing: none, or that of a frozen dataclass."""
    kind = type(value)
    if isinstance(kind, enum_type()):
        return True
    names = vars(kind)
    bases = [base for base in kind.__mro__ if base not in (object, *_BUILTIN)]
    is_frozen = getattr(names.get("__dataclass_params__"), "frozen", False)
    is_known = is_frozen or issubclass(kind, _BUILTIN) or any(map(_is_of_python, bases))
    if not is_known or not all(base.__flags__ & HEAP for base in bases):
        return False
    fields = names["__dataclass_fields__"] if is_frozen else ()
    return all(name in fields for name, _part in attributes(value, _is_library(kind)))


def _is_of_python(kind: type) -> bool:
    """Return True if a class is of a package that is all Python: its instances hide no content."""
    return _is_library(kind) and kind.__module__.partition(".")[0] in _PYTHON_ONLY


def _is_library(kind: type) -> bool:
    """Return True if a class is of Python, or of a package that generates code."""
    module = kind.__module__ if isinstance(kind.__module__, str) else ""
    package = module.partition(".")[0]
    known = package in _LIBRARIES or package in sys.stdlib_module_names
    return known and getattr(sys.modules.get(module), kind.__name__, None) is kind and module != "__main__"


def _overrides(kind: type) -> bool:
    """Return True if a class of the user, or its metaclass, redefines a name of a base class by more than a value."""
    bases = kind.__mro__
    for place, base in enumerate(bases):
        if not _is_library(base):
            below = {name for other in bases[place + 1 :] for name in vars(other)}
            if any(name in below and not _is_made(base, name, member) for name, member in vars(base).items()):
                return True
    return not _is_library(type(kind))


def _is_made(kind: type, name: str, member: Any) -> bool:
    """Return True if Python, `dataclasses` or `enum` put a name into the body of a class."""
    if name in NOT_IN_CLASS or name.startswith(("__dataclass_", "__match_args__")) or isinstance(member, SLOTS):
        return True
    function = getattr(member, "__func__", member)
    if isinstance(function, FunctionType):
        file = function.__code__.co_filename
        return file == "<string>" or (file.startswith(_PYTHON) and not file.startswith(_INSTALLED))
    return isinstance(kind, enum_type()) or name in ("__slots__", "__hash__")
