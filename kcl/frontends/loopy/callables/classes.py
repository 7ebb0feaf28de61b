"""Classes and their instances: the attributes of an instance, the code of a class, and whether an instance *lasts*.

An object lasts if nothing in it can change after a call, and if loopy runs no code of the user with it. Members of
enumerations, instances of frozen dataclasses, and tags without attributes last if their parts do. An object whose class
is the user's does not last if the class redefines a name of a base class: loopy may run that code during the call.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from contextlib import suppress
from functools import lru_cache
from types import FunctionType
from typing import Any

from kcl.errors import UnknownInput
from kcl.frontends.loopy.plain import SIMPLE, package_of, refuse
from kcl.generate import GENERATORS, distributions

# The flag of a type that was made by a class statement, or like one (Py_TPFLAGS_HEAPTYPE).
HEAP = 1 << 9

# The types of methods in a class body.
CODE = (FunctionType, property, classmethod, staticmethod, functools.cached_property)
SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
# Names in a class body that do not change how instances behave: those of the interpreter, of enumerations, and
# `__slotnames__`, which copyreg stores when an instance is copied or pickled.
NOT_IN_CLASS = {
    *("__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
    *("__orig_bases__", "__parameters__", "__type_params__", "__dataclass_params__"),
    *("__dict__", "__weakref__", "__classdictcell__", "__classcell__"),
    *("_abc_impl", "__abstractmethods__", "__slotnames__"),
    *("_member_map_", "_value2member_map_"),
    *("_unhashable_values_", "_hashable_values_", "_unhashable_values_map_"),
}
# The beginnings of the attributes in which pytools stores results, on objects of any class.
_OF_PYTOOLS = ("_pytools_", "_memoize_dic")
# The attributes in which libraries store hashes, and loopy its results.
_HASHES = ("_hash_value", "_cache_hash", "_cached_hash")
_COMPUTED = frozenset({"_cache_manager", "_cached_written_variables"})
# The builtin classes whose content can be read from an instance of a subclass.
_SHOWING = (
    *(object, dict, list, tuple, str, int, float, bytes, set, frozenset, complex, bytearray),
    *(BaseException, Exception),
)
# Those of them whose content cannot change.
_UNCHANGING: tuple[Any, ...] = (str, bytes, int, float, complex, tuple, frozenset)
# The packages whose objects keep all their content in attributes.
_PYTHON_ONLY = frozenset({"loopy", "pymbolic", "pytools"})
# The packages whose objects keep their content elsewhere, but immutable.
_IMMUTABLE = frozenset({"islpy", "constantdict", "immutables"})
_PYTHON = os.path.dirname(os.__file__) + os.sep
_INSTALLED = _PYTHON + "site-packages"


def class_attributes(kind: type) -> list[tuple[str, Any]]:
    """List the (name, value) pairs of a class body, without slots and the names in `NOT_IN_CLASS`."""
    return [
        (name, value)
        for name, value in kind.__dict__.items()
        if name not in NOT_IN_CLASS and not isinstance(value, SLOTS)
    ]


def brought(kind: type, called: bool) -> list[tuple[str, Any]]:
    """List the (name, value) pairs of a class body that the user wrote, and not Python, `dataclasses` or `enum`.

    Methods are left out unless their names begin with two underscores: of an object that is only a value, loopy calls no
    others. With `called` all are listed, since code of a package has the object and may call any method.
    """
    pairs = [pair for pair in class_attributes(kind) if not _is_made(kind, *pair)]
    return [
        pair for pair in pairs if called or pair[0][:2] == "__" or not isinstance(pair[1], CODE)
    ]


def enum_type() -> Any:
    """Return EnumMeta, for `isinstance`; an empty tuple if `enum` is not imported."""
    module = sys.modules.get("enum")
    return module.EnumMeta if module is not None else ()


def is_plain(kind: type) -> bool:
    """Return True if instances of a class keep all their content in attributes or in a builtin base class."""
    return all(base.__flags__ & HEAP or base in _SHOWING for base in kind.__mro__)


@lru_cache(maxsize=1024)
def slots(kind: type) -> list[tuple[str, Any]]:
    """List the slots of a class by name."""
    members = [pair for base in reversed(kind.__mro__) for pair in vars(base).items()]
    return [pair for pair in members if type(pair[1]) is types.MemberDescriptorType]


def _by_name(pair: tuple[Any, Any]) -> tuple[str, str]:
    return str(pair[0]), type(pair[0]).__name__


def own(value: Any) -> dict[Any, Any]:
    """Return the attributes in the dictionary and the slots of an instance, without running code of its class."""
    try:
        names = object.__getattribute__(value, "__dict__")
    except AttributeError:
        names = None
    # The class may have an attribute of that name.
    names = dict(names) if isinstance(names, dict) else {}
    kind: Any = type(value)
    for name, member in slots(kind):
        with suppress(AttributeError):
            names[name] = member.__get__(value, kind)
    return names


def attributes(value: Any, theirs: bool = False) -> list[tuple[Any, Any]]:
    """List the attributes of an object, sorted by name, without stored results (`is_memo`).

    `theirs` says that the object belongs to a library, which stores further results.
    """
    kind: Any = type(value)
    kept = [pair for pair in own(value).items() if not is_memo(kind, pair[0], theirs)]
    return sorted(kept, key=_by_name)


@lru_cache(maxsize=4096)
def is_memo(kind: type, name: Any, theirs: bool = False) -> bool:
    """Return True if an attribute only stores a result that pymbolic, pytools or loopy can compute again.

    `theirs` says that the object belongs to a library, which also stores results of its own.
    """
    if type(name) is not str:
        return False
    if name.startswith(_OF_PYTOOLS):
        return True
    if theirs and (name in _COMPUTED or name.startswith("_kcl_")):
        return True
    if name in _HASHES:
        return theirs or any(package_of(base) in _PYTHON_ONLY for base in kind.__mro__)
    member = static(kind, name)
    module = getattr(getattr(member, "func", None), "__module__", None) or ""
    return type(member).__name__ == "cached_property" and (
        theirs or module.partition(".")[0] in _PYTHON_ONLY
    )


def static(kind: type, name: Any) -> Any:
    """Look up a class attribute without running code."""
    return next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)


def is_found(kind: type) -> bool:
    """Return True if a class is found in its module under its name, which a class made inside a function is not."""
    holder: Any = sys.modules.get(kind.__module__) if isinstance(kind.__module__, str) else None
    for name in kind.__qualname__.split("."):
        # Read from the dictionary: `getattr` could run a module's `__getattr__`.
        holder = getattr(holder, "__dict__", {}).get(name)
    return holder is kind


def is_library(kind: type) -> bool:
    """Return True if a class counts by its name alone: one of Python, of a generator, or of C code."""
    if not kind.__flags__ & HEAP:
        return True
    owner = distributions.owner(str(kind.__module__))
    is_known = owner.kind == distributions.PYTHON or owner.name in GENERATORS
    # Refused if it only claims to be of that module, or was made at run time.
    if is_known and not is_found(kind):
        refuse(kind)
    return is_known


def require_lasting(value: Any) -> None:
    """Raise UnknownInput unless an object lasts, together with all its parts."""
    waiting, seen = [value], {id(value): value}
    while waiting:
        item = waiting.pop()
        parts = [] if type(item) is str or type(item) in SIMPLE else _lasting_parts(item)
        if parts is None:
            kind = type(value)
            raise UnknownInput(
                f"an object of {kind.__module__}.{kind.__qualname__} may change after the call"
            )
        for part in parts:
            if id(part) not in seen:
                # The table keeps the part, so that its id is not used again.
                seen[id(part)] = part
                waiting.append(part)


def _lasting_parts(value: Any) -> list[Any] | None:
    """List the values that decide whether an object lasts; None if it does not."""
    kind = type(value)
    if kind is slice:
        return [value.start, value.stop, value.step]
    if isinstance(value, type):
        return [] if is_library(value) else None
    package = package_of(kind) if is_library(kind) else ""
    if package in _IMMUTABLE:
        return [part for pair in value.items() for part in pair] if hasattr(value, "items") else []
    numpy: Any = sys.modules.get("numpy")
    if package == "numpy" and isinstance(value, (numpy.dtype, numpy.generic)):
        return [] if kind is not numpy.void else None
    if not package and overrides(kind):
        return None
    return [value._value_] if isinstance(kind, enum_type()) else _frozen_parts(value, kind)


def _frozen_parts(value: Any, kind: type) -> list[Any] | None:
    """List the parts of an object whose content Python protects from changes; None if it has other content."""
    names, pairs = vars(kind), attributes(value, is_library(kind))
    # The value of a cached property follows from the rest.
    pairs = [pair for pair in pairs if type(static(kind, pair[0])).__name__ != "cached_property"]
    bases = [base for base in kind.__mro__ if base not in (object, *_UNCHANGING)]
    is_frozen = getattr(names.get("__dataclass_params__"), "frozen", False)
    theirs = [package_of(base) for base in bases if is_library(base)]
    is_known = is_frozen or issubclass(kind, _UNCHANGING) or not _PYTHON_ONLY.isdisjoint(theirs)
    fields = names["__dataclass_fields__"] if is_frozen else ()
    if (
        not is_known
        or not all(base.__flags__ & HEAP for base in bases)
        or any(name not in fields for name, _ in pairs)
    ):
        return None
    items = [*value] if isinstance(value, (tuple, frozenset)) else []
    return items + [part for _name, part in pairs]


def overrides(kind: type) -> bool:
    """Return True if a user's class redefines a name of a base class, or has a metaclass of the user's."""
    bases = kind.__mro__
    for place, base in enumerate(bases):
        if not is_library(base):
            below = {name for other in bases[place + 1 :] for name in vars(other)}
            if any(
                name in below and not _is_made(base, name, member)
                for name, member in vars(base).items()
            ):
                return True
    return not is_library(type(kind))


def _is_made(kind: type, name: str, member: Any) -> bool:
    """Return True if a name in a class body comes from Python, `dataclasses` or `enum`, and not from the user."""
    if (
        name in NOT_IN_CLASS
        or name.startswith(("__dataclass_", "__match_args__"))
        or isinstance(member, SLOTS)
    ):
        return True
    function = getattr(member, "__func__", member)
    if isinstance(function, FunctionType):
        file = function.__code__.co_filename
        # The file of methods from `dataclasses` and `namedtuple`; but a program of `python -c` has it too.
        if file == "<string>":
            scope = str(function.__globals__.get("__name__"))
            inner = getattr(function.__code__, "co_qualname", "__create_fn__")
            return scope.startswith("namedtuple_") or inner.startswith("__create_fn__")
        return file.startswith(_PYTHON) and not file.startswith(_INSTALLED) and name[:1] == "_"
    is_member = isinstance(kind, enum_type()) and not isinstance(member, CODE)
    return is_member or name in ("__slots__", "__hash__")
