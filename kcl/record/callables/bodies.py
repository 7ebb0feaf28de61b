"""The bodies of classes: what a class counts by, and what of it waits until code names it."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from kcl.errors import UnknownInput
from kcl.record import distributions
from kcl.record.callables import classes, pure
from kcl.record.callables.facts import facts
from kcl.record.plain import SIMPLE, name_of

ANY = frozenset({"getattr", "attrgetter", "methodcaller", "__dict__", "__getattribute__"})  # take any attribute
_MAKERS = ("dataclasses", "reprlib")


def read_class(walk: Any, kind: type, label: str) -> None:
    """Count of a class: its bases, its values, and the methods that the libraries of its bases know by name.

    Other methods and descriptors count as soon as reached code names them. Of a class without a base in a library every
    method counts: whoever gets an object of it may call any.
    """
    walk.sources.append((f"class {label}", kind))
    walk.where = label
    theirs = [base for base in kind.__mro__ if base is not object and not is_own(walk, base)]
    listed = {name for base in theirs for name in vars(base)}
    body = [f"bases {' '.join([walk.reference(base) for base in kind.__bases__])}"]
    if type(kind) is not type:
        body.append(f"metaclass {walk.reference(type(kind))}")
    rest: dict[str, Any] = {}
    for name, value in classes.class_attributes(kind):
        text = _made_by_dataclasses(kind, name, value)
        is_known = not theirs or name in listed or str(name)[:1] == "_" == str(name)[-1:]
        if text is None and (is_known or not (callable(value) or hasattr(type(value), "__get__"))):
            text = _encoded(walk, value) if not is_known else walk.encode(value)
        if type(value) is str:
            walk.named.add(value)
        if text is None:
            rest[name] = value
        else:
            body.append(f"{name_of(name)}: {text}")
    if "_abc_impl" in vars(kind):
        body += [f"registered {walk.reference(other)}" for other in classes.registered(kind)]
    walk.add(f"class {label}", walk.shorten("; ".join(body)))
    if rest:
        walk.partly.append((label, rest))


def _encoded(walk: Any, value: Any) -> str | None:
    """Return the text of a value, None if it cannot be known."""
    try:
        text: str = walk.encode(value)
    except UnknownInput:
        return None
    return text


def read_named(walk: Any) -> bool:
    """Count what code names of classes by now; return True if there is more code to read."""
    for label, rest in walk.partly:
        for name in [name for name in rest if name in walk.named or not ANY.isdisjoint(walk.named)]:
            walk.where = label
            with walk.having(in_code=True):
                walk.add(f"attribute {name_of(name)} of class {label}", walk.encode(rest.pop(name)))
    return bool(walk.waiting)


def read_listed(walk: Any, kind: type, dotted: str) -> None:
    """Count what a program set on a class of a library that is on the list."""
    held = {}
    for name, value in classes.class_attributes(kind):
        if type(value) in SIMPLE or type(value) is str or (isinstance(value, FunctionType) and is_own(walk, value)):
            held[str(name)] = walk.encode(value)
    for other in classes.registered(kind) if "_abc_impl" in vars(kind) else ():
        if distributions.owner(other.__module__).kind == distributions.USER:  # packages register theirs at import
            held[f"registered {other.__qualname__}"] = walk.encode(other)
    if held:
        walk.add(f"class {dotted}", walk.shorten("; ".join([f"{name}: {held[name]}" for name in sorted(held)])))


def is_own(walk: Any, thing: Any) -> bool:
    """Return True if a class or function is walked."""
    if isinstance(thing, FunctionType):
        return bool(walk.is_walked(thing.__globals__.get("__name__")))
    return bool(thing.__flags__ & classes.HEAP) and (walk.is_walked(thing.__module__) or not is_found(thing))


def is_found(kind: type) -> bool:
    """Return True if a module holds a class under its name; one that was made at run time it does not hold."""
    found: Any = sys.modules.get(kind.__module__) if isinstance(kind.__module__, str) else None
    for name in kind.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return found is kind


def is_of_generators(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] in pure.GENERATORS and is_found(kind)


def _made_by_dataclasses(kind: type, name: Any, value: Any) -> str | None:
    """Return the text of a method that `dataclasses` or pymbolic made of the fields; None for any other attribute."""
    value = value.fget if isinstance(value, property) else value
    if "__dataclass_params__" not in vars(kind) or not isinstance(value, FunctionType):
        return None
    inner = getattr(value, "__wrapped__", value)
    file, maker = inner.__code__.co_filename, str(getattr(inner.__code__, "co_qualname", ""))
    is_made = file[:1] == "<" and (maker.startswith("__create_fn__.") or "__file__" in value.__globals__)
    is_made = str(name)[:2] == "__" and (is_made or value.__globals__.get("__name__") in _MAKERS)
    is_made = is_made or file.startswith("<dataclass augmentation")
    return f"made {facts(inner.__code__).digest}" if is_made else None
