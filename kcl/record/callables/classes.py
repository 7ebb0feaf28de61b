"""The attributes that a class gives its instances, and the attributes that an instance holds itself."""

from __future__ import annotations

import sys
import types
from typing import Any

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
    kept = [pair for pair in content(value) if not is_memo(kind, pair[0])]
    kept = [pair for pair in kept if type(static(kind, pair[0])).__name__ != "cached_property"]
    return [pair for pair in kept if not (theirs and is_remembered(kind, pair[0]))]


def is_memo(kind: type, name: Any) -> bool:
    """Return True if pymbolic, pytools or loopy write an attribute to remember a result computed from the others."""
    if type(name) is not str:
        return False
    if name.startswith(_OF_PYTOOLS):
        return True
    if name in _HASHES:
        return any(str(base.__module__).partition(".")[0] in _NODES for base in kind.__mro__)
    member = static(kind, name)
    module = getattr(getattr(member, "func", None), "__module__", None) or ""
    return type(member).__name__ == "cached_property" and module.partition(".")[0] in _NODES


def is_remembered(kind: type, name: str) -> bool:
    """Return True if an attribute of an object of a library only remembers a result computed from the others."""
    if str(name).startswith((*_OF_PYTOOLS, *_HASHES)):
        return True
    member = static(kind, name)
    return member is not None and type(member).__name__ == "cached_property"


def static(kind: type, name: Any) -> Any:
    """Look up a class attribute without running code."""
    return next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)
