"""The facts of a code object: its digest, and the names that it reads.

The digest covers the instructions, the constants with their types, and the names; positions and the docstring do not
count. The reads are the globals and cells that the code takes, each with the attributes that stand directly behind it:
`np.linalg.norm(x)` reads `norm` of `linalg` of `np`. An import reads the names that it lists. Any instruction with a
name that is not known here counts as a read of a global.
"""

from __future__ import annotations

import dis
import hashlib
import opcode
import re
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

GLOBAL, CELL, IMPORT = "global", "closure", "import"
UNKNOWN = "*"  # the module of an import that cannot be read off the instructions

_NOISE = frozenset({"EXTENDED_ARG", "PUSH_NULL", "NOP", "CACHE", "RESUME", "PRECALL", "NOT_TAKEN"})
_TAKES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
# instructions with a name that read no global; a class body stores its own names
_LOCAL = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_NAME", "DELETE_NAME", "IMPORT_NAME", "IMPORT_FROM"})
_FLAGS = 0xFFFF  # those about parameters and kinds of functions, without the futures of the module


class Reference(NamedTuple):
    """One read: a global or cell with the attributes behind it, or an import with the names that it takes."""

    root: str
    name: str
    attributes: tuple[str, ...]
    level: int


class Facts(NamedTuple):
    """The facts of a code object, with those of the code inside it."""

    digest: str
    reads: tuple[Reference, ...]
    attributes: frozenset[str]  # names of all attributes that it takes of any value
    texts: frozenset[str]  # its constants that may be names of attributes


@lru_cache(maxsize=2048)
def facts(code: CodeType) -> Facts:
    """Return the facts of `code`; memoised, since code does not change."""
    reader = _Reader()
    reader.read(code, frozenset(code.co_freevars))
    digest = hashlib.sha256(_raw(code).encode()).hexdigest()
    return Facts(digest, tuple(dict.fromkeys(reader.reads)), frozenset(reader.attributes), frozenset(reader.texts))


def _raw(code: CodeType) -> str:
    constants = [*code.co_consts]
    if constants and type(constants[0]) is str and not _uses_first(code):
        constants[0] = None  # a docstring
    held = (
        code.co_code.hex(),
        [constant(one) for one in constants],
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_name,
        code.co_flags & _FLAGS,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        getattr(code, "co_exceptiontable", b"").hex(),
    )
    return ascii(held)


def _uses_first(code: CodeType) -> bool:
    return any(one.opcode in opcode.hasconst and one.arg == 0 for one in dis.get_instructions(code))


def constant(value: Any) -> str:
    """Return the text of a constant of code, with its type."""
    kind = type(value)
    if kind is CodeType:
        return f"code {hashlib.sha256(_raw(value).encode()).hexdigest()}"
    if kind is tuple:
        return f"({', '.join(map(constant, value))},)"
    if kind is frozenset:
        return f"frozenset({', '.join(sorted(map(constant, value)))})"
    if kind is slice:
        return f"slice{constant((value.start, value.stop, value.step))}"
    return f"{kind.__name__} {hex(value) if kind is int else ascii(value)}"


class _Reader:
    """One pass over a code object and the code inside it."""

    def __init__(self) -> None:
        self.reads: list[Reference] = []
        self.attributes: set[str] = set()
        self.texts: set[str] = set()

    def read(self, code: CodeType, cells: frozenset[str]) -> None:
        """Read a code object; `cells` are those of the function that it belongs to."""
        listed = [one for one in dis.get_instructions(code) if one.opname not in _NOISE]
        imports = [index for index, one in enumerate(listed) if one.opname == "IMPORT_NAME"]
        modules = dict(filter(None, [self.imported(listed, index) for index in imports]))
        unused = {*modules}
        for index, one in enumerate(listed):
            if "LOAD_FAST" in one.opname and modules:
                names = one.argval if isinstance(one.argval, tuple) else (one.argval,)  # Python 3.13 joins two
                for name in set(names).intersection(modules):
                    behind = _behind(listed, index + 1) if name not in names[:-1] else ()
                    self.reads.append(modules[name]._replace(attributes=behind))
                    unused.discard(name)
            elif one.opname in _TAKES or one.opname == "LOAD_SUPER_ATTR":
                self.attributes.add(one.argval)
            elif one.opcode in opcode.hasname and one.opname not in _LOCAL:
                self.reads.append(Reference(GLOBAL, one.argval, _behind(listed, index + 1), 0))
            elif "DEREF" in one.opname and one.opname.startswith("LOAD") and one.argval in cells:
                self.reads.append(Reference(CELL, one.argval, _behind(listed, index + 1), 0))
        self.reads += [modules[name] for name in sorted(unused)]
        self.texts.update(_texts(code.co_consts))
        for inner in code.co_consts:
            if type(inner) is CodeType:
                self.read(inner, cells.intersection(inner.co_freevars))

    def imported(self, listed: list[Any], index: int) -> tuple[str, Reference] | None:
        """Note the names that an import takes of its module; return the variable that it makes the module, if any."""
        level, names = (listed[index - 2].argval if index > 1 else None), listed[index - 1].argval
        if not isinstance(level, int) or not isinstance(names, (tuple, type(None))):
            self.reads.append(Reference(IMPORT, UNKNOWN, (), 0))
            return None
        read, store = Reference(IMPORT, listed[index].argval, (), level), listed[index + 1]
        if names is None and store.opname == "STORE_FAST" and "." not in read.name:
            return store.argval, read
        self.reads += [read._replace(attributes=(one,)) for one in names] if names else [read]
        return None


def _texts(constants: tuple[Any, ...]) -> Iterator[str]:
    """Yield the words of the texts among constants: a text may name attributes, as "a.b" or "{0.a}" do."""
    for one in constants:
        if type(one) is str:
            yield from re.findall(r"\w+", one)
        elif type(one) in (tuple, frozenset):
            yield from _texts(tuple(one))


def _behind(listed: list[Any], index: int) -> tuple[str, ...]:
    """Return the attributes that are taken directly behind an instruction."""
    end = index
    while end < len(listed) and listed[end].opname in _TAKES:
        end += 1
    return tuple([one.argval for one in listed[index:end]])
