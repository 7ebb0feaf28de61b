"""Readings: the digest and the references of a code object, read off it once in a process.

A start that reads no code imports nothing that reads bytecode.
"""

from __future__ import annotations

import hashlib
import sys
from types import CodeType

from kcl.errors import UnknownInput
from kcl.record.callables.references import References

NEWEST = (3, 13)  # kcl reads the bytecode of no newer Python
LIMIT = 4096  # number of code objects that are remembered

# A code object hashes and compares by its content, which is slow; its identity is safe while it is kept alive here.
_digests: dict[int, tuple[CodeType, str]] = {}
_references: dict[int, tuple[CodeType, References]] = {}


def digest(code: CodeType) -> str:
    """Return the digest that `kcl.record.callables.code.digest` returns; memoised."""
    known = _digests.get(id(code))
    if known is None:
        if len(_digests) >= LIMIT:
            _digests.clear()
        known = _digests[id(code)] = code, _digest(code)
    return known[1]


def _digest(code: CodeType) -> str:
    if sys.version_info[:2] > NEWEST:
        return _raw(code)
    from kcl.record.callables import code as reader

    return reader.digest(code)


def _raw(code: CodeType) -> str:
    """Return the digest of a code object as it is, with its layout, where kcl does not know this Python's bytecode."""
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
    """Return the references that `kcl.record.callables.scan.references` returns; memoised."""
    known = _references.get(id(code))
    if known is None:
        if sys.version_info[:2] > NEWEST:
            version = ".".join(map(str, sys.version_info[:2]))
            raise UnknownInput(f"kcl does not know the bytecode of Python {version}: use an older Python, or pass text")
        from kcl.record.callables import scan

        if len(_references) >= LIMIT:
            _references.clear()
        known = _references[id(code)] = code, scan.references(code)
    return known[1]
