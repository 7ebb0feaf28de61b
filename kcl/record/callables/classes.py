"""The attributes that a class gives its instances, those that an instance holds itself, and which instances last.

An object lasts if nothing in it changes after a call, and if loopy runs no code of the user with it. Members of
enumerations, instances of frozen dataclasses, and tags without attributes last if their parts do. An object of the user
does not last if its class redefines a name of a base class: loopy may run that code during the call.
"""

from __future__ import annotations

import os
import sys
import types
from types import FunctionType
from typing import Any

from kcl.errors import UnknownInput
from kcl.record.plain import SIMPLE

HEAP = 1 << 9  # flag of a type that a class statement made, or that behaves like one

SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
# names that a class body or the interpreter stores and that do not change how instances behave
NOT_IN_CLASS = frozenset(
    (
        *("__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"),
        *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
        *("__orig_bases__", "__parameters__", "__type_params__", "__dataclass_params__"),
        *("__dict__", "__weakref__", "__classdictcell__", "__classcell__"),
        *("_abc_impl", "__abstractmethods__"),
        *("_member_map_", "_value2member_map_"),  # of enumerations, the next three too
        *("_unhashable_values_", "_hashable_values_", "_unhashable_values_map_"),
        "__slotnames__",  # copyreg stores it when an instance is copied or pickled
    )
)
# beginnings of the names under which libraries remember results computed from the others; on any object, or on theirs
_OF_PYTOOLS = ("_pytools_persistent_hash", "_memoize_dic")
_HASHES = ("_hash_value", "_cache_hash", "_cached_hash")
_HOLDERS = frozenset(
    {object, dict, list, tuple, str, int, float, bytes, set, frozenset, complex, bytearray, BaseException, Exception}
)
_NODES = frozenset({"pymbolic", "loopy", "pytools"})
_OF_MEMBERS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_", "_missing_"})

_LIBRARIES = frozenset({"builtins", "loopy", "pymbolic", "islpy", "pytools", "numpy", "constantdict", "immutables"})
_PYTHON_ONLY = frozenset({"loopy", "pymbolic", "pytools"})
_IMMUTABLE = frozenset({"islpy", "constantdict", "immutables"})  # packages whose objects hide an immutable content
_BUILTIN: tuple[Any, ...] = (str, bytes, int, float, complex, tuple, frozenset)
_PYTHON = os.path.dirname(os.__file__) + os.sep
_INSTALLED = _PYTHON + "site-packages"


def class_attributes(kind: type) -> list[tuple[str, Any]]:
    """List the methods and values that the body of a class gives its instances, without names about its text only."""
    listed: list[tuple[str, Any]] = []
    members = getattr(kind, "_member_map_", {}) if isinstance(kind, enum_type()) else {}
    for name, value in kind.__dict__.items():
        if name in NOT_IN_CLASS or isinstance(value, SLOTS) or name in members or str(name).startswith(_OF_PYTOOLS):
            continue
        if name == "__dataclass_fields__":
            listed.append((name, {key: _field(field) for key, field in value.items()}))
        else:
            listed.append((name, value))
    for name, member in members.items():
        own = [pair for pair in attributes(member) if pair[0] not in _OF_MEMBERS]
        listed.append((name, (member._value_, own) if own else member._value_))
    return listed


def _field(field: Any) -> tuple[Any, ...]:
    """Take a dataclass's field apart; code may ask for its type."""
    names = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
    missing = sys.modules["dataclasses"].MISSING
    held = [getattr(field, name, None) for name in names]
    own = [dict(field.metadata)] if field.metadata else []
    kind = getattr(field.type, "__qualname__", None) or str(field.type)
    return (kind, *("<missing>" if item is missing else item for item in held), str(field._field_type.name), *own)


def registered(kind: type) -> list[type]:
    """List the classes that were registered with an abstract class, in an order that no address decides."""
    dump: Any = getattr(sys.modules.get("_abc"), "_get_dump", None)
    found = [reference() for reference in dump(kind)[0]] if dump is not None else []
    return sorted([one for one in found if one is not None], key=lambda one: (one.__module__, one.__qualname__))


def enum_type() -> Any:
    """Return the type of enumerations, or an empty tuple where `enum` is not imported."""
    module = sys.modules.get("enum")
    return module.EnumMeta if module is not None else ()


def is_plain(kind: type) -> bool:
    """Tell whether instances of a user's class keep all their content in attributes or in a builtin base."""
    return all(base.__flags__ & HEAP or base in _HOLDERS for base in kind.__mro__)


def content(value: Any) -> list[tuple[Any, Any]]:
    """List the attributes that an instance holds in its slots and its dictionary."""
    held: list[tuple[Any, Any]] = []
    kind = type(value)
    for base in kind.__mro__:
        for name, member in base.__dict__.items():
            if type(member) is types.MemberDescriptorType:
                try:
                    held.append((name, member.__get__(value, kind)))
                except AttributeError:
                    continue
    own = getattr(value, "__dict__", None)
    held += own.items() if isinstance(own, dict) else ()
    return sorted(held, key=lambda pair: (str(pair[0]), type(pair[0]).__name__))


def attributes(value: Any, theirs: bool = False) -> list[tuple[Any, Any]]:
    """List the attributes of an object without remembered results; an object of a library remembers more."""
    kind = type(value)
    kept = [pair for pair in content(value) if not is_memo(kind, pair[0], theirs)]
    return [pair for pair in kept if type(static(kind, pair[0])).__name__ != "cached_property"]


def is_memo(kind: type, name: Any, theirs: bool = False) -> bool:
    """Return True if an attribute of an object only remembers a result that pymbolic, pytools or loopy computed.

    An object of a library, which is `theirs`, also remembers results of its own.
    """
    if type(name) is not str:
        return False
    if name.startswith(_OF_PYTOOLS):
        return True
    if name in _HASHES:
        return theirs or any(str(base.__module__).partition(".")[0] in _NODES for base in kind.__mro__)
    member = static(kind, name)
    module = getattr(getattr(member, "func", None), "__module__", None) or ""
    return type(member).__name__ == "cached_property" and (theirs or module.partition(".")[0] in _NODES)


def static(kind: type, name: Any) -> Any:
    """Look up a class attribute without running code."""
    return next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)


def require_lasting(value: Any) -> None:
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
