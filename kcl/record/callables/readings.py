"""Readings: what is read off code objects and records of installations, remembered, and kept for later processes.

A reading stands under the digest of all that it is made of, so one that is kept is true as long as nobody changes how
readings are made. `kcl.record.kept` sees to that, and carries them from process to process. Nothing of it is needed
for a right answer: what is not there, or is of no use, is read anew.
"""

from __future__ import annotations

import hashlib
import marshal
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from kcl.record.callables.references import Reference, References

NEWEST = (3, 13)  # the newest Python whose bytecode kcl reads
LIMIT = 4096  # readings, and code objects that are remembered
_VERSION = 2  # of marshal: later ones write other bytes where somebody else refers to a part of the code
_EXACT = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})  # one value, one text in marshal

T = TypeVar("T")

before: dict[str, Any] = {}  # readings of earlier processes: kind and digest -> what JSON can hold
now: dict[str, Any] = {}  # those that this process used or made

# A code object hashes and compares by its content, which is slow; its identity is safe while it is kept alive here.
_places: dict[int, tuple[CodeType, str]] = {}
_references: dict[int, tuple[CodeType, References]] = {}


def digest(code: CodeType) -> str:
    """Return what `kcl.record.callables.code.digest` returns."""
    return _text_at(_place("digest", code), lambda: _digest(code))


def _digest(code: CodeType) -> str:
    if sys.version_info[:2] > NEWEST:
        return _raw(code)
    from kcl.record.callables import code as reader

    return reader.digest(code)


def _raw(code: CodeType) -> str:
    """Return the digest of a code object as it is, with its layout: kcl does not know the bytecode of this Python."""
    constants = [_raw(one) if isinstance(one, CodeType) else _text(one) for one in code.co_consts]
    names = (code.co_name, code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    handlers = getattr(code, "co_exceptiontable", b"")
    return hashlib.sha256(repr((names, numbers, constants, code.co_code, handlers)).encode()).hexdigest()


def _text(constant: object) -> str:
    if isinstance(constant, frozenset):  # its order changes with the hash seed
        return f"{{{sorted(map(_text, constant))}}}"
    return f"{type(constant).__name__} {constant!r}"


def references(code: CodeType) -> References:
    """Return what `kcl.record.callables.scan.references` returns."""
    known = _references.get(id(code))
    if known is None:
        place = _place("references", code)
        found = _restored(code, _find(place))
        if found is None:
            if sys.version_info[:2] > NEWEST:
                from kcl.errors import UnknownInput

                version = ".".join(map(str, sys.version_info[:2]))
                raise UnknownInput(
                    f"kcl does not know the bytecode of Python {version}: use an older Python, or pass text"
                )
            from kcl.record.callables import scan

            found = scan.references(code)
            _keep(place, _plain(code, found))
        known = _remember(_references, code, found)
    return known[1]


def text(kind: str, content: bytes, read: Callable[[bytes], str]) -> str:
    """Return `read(content)`, a text that is made of nothing else; `kind` names what is read."""
    return _text_at(f"{kind} {hashlib.sha256(content).hexdigest()}", lambda: read(content))


def _text_at(place: str, read: Callable[[], str]) -> str:
    found: str | None = _find(place)
    if not isinstance(found, str):
        found = read()
        _keep(place, found)
    return found


def _remember(memo: dict[int, tuple[CodeType, T]], code: CodeType, value: T) -> tuple[CodeType, T]:
    if len(memo) >= LIMIT:
        memo.clear()
    known = memo[id(code)] = (code, value)
    return known


def _find(place: str) -> Any:
    found = now.get(place)
    if found is None:
        found = before.get(place)
        if found is not None:
            now[place] = found
    return found


def _keep(place: str, found: Any) -> None:
    if place and len(now) < LIMIT:
        now[place] = found


def _place(kind: str, code: CodeType) -> str:
    """Return the place of a reading: by what code does, not where it stands; empty for what no compiler makes."""
    known = _places.get(id(code))
    if known is None:
        try:
            content = hashlib.sha256(marshal.dumps(_content(code), _VERSION)).hexdigest()
        except ValueError:
            content = ""
        known = _remember(_places, code, content)
    return known[1] and f"{kind} {known[1]}"


def _content(code: CodeType) -> list[Any]:
    """List all that readings are made of."""
    return [
        code.co_code,
        [constant if type(constant) in _EXACT else _constant(constant) for constant in code.co_consts],
        code.co_names,
        code.co_varnames,
        code.co_cellvars,
        code.co_freevars,
        code.co_name,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
        getattr(code, "co_exceptiontable", b""),
    ]


def _constant(value: Any) -> Any:
    """Return what stands for a constant: of the same type and value, code as a list, a set as a dictionary."""
    kind = type(value)
    if kind in _EXACT:
        return value
    if isinstance(value, CodeType):
        return _content(value)
    if kind is tuple:
        return tuple([_constant(item) for item in value])
    if kind is frozenset:  # its order changes with the hash seed
        return {"items": sorted([marshal.dumps(_constant(item), _VERSION) for item in value])}
    raise ValueError(f"the compiler makes no constants of type {kind.__name__}")


def _plain(code: CodeType, found: References) -> list[Any]:
    """Return references as JSON can hold them, and `_restored` reads them."""
    ways = _ways(code, [])
    chains = [[one.root, one.name, one.level, one.attributes, ways[id(one.code)], one.unit] for one in found.chains]
    return [chains, sorted(found.mentions), sorted(found.stored)]


def _restored(code: CodeType, kept: Any) -> References | None:
    try:
        chains, mentions, stored = kept
        return References(
            [
                Reference(root, name, level, tuple(attributes), _inner(code, way), unit)
                for root, name, level, attributes, way, unit in chains
            ],
            frozenset(mentions),
            frozenset(stored),
        )
    except (TypeError, ValueError, LookupError):
        return None


def _ways(code: CodeType, way: list[int]) -> dict[int, list[int]]:
    """Tell by which constants one comes to each code object, by its id, that is nested in one."""
    found = {id(code): way}
    for index, constant in enumerate(code.co_consts):
        if type(constant) is CodeType:
            found.update(_ways(constant, [*way, index]))
    return found


def _inner(code: CodeType, way: list[int]) -> CodeType:
    for index in way:
        code = code.co_consts[index]
        if type(code) is not CodeType:
            raise ValueError("no code is there")
    return code
