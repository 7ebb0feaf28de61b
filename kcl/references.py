"""What a code object refers to: globals, cells and imported modules, each with the attributes taken of it.

Read off the bytecode without running it. A chain such as ``geometry.tiles.square`` is one reference: a root and two
attributes. A name that an ``import`` inside the function binds is followed to the module; so is
``getattr(module, "name")`` with a name that stands in the code.
"""

from __future__ import annotations

import opcode
from types import CodeType
from typing import NamedTuple

from kcl.code import LOAD_CONST, NAME_SHIFT, stream

GLOBAL, NAME, CELL, IMPORT, TOUCH = range(5)
UNKNOWN = "*"  # an attribute whose name is computed
_DYNAMIC = frozenset({"getattr", "setattr", "hasattr", "delattr"})
_SPECIAL = frozenset({"__doc__", "__annotations__", "getdoc", "get_type_hints"})


class Reference(NamedTuple):
    """One place in a code object that refers to something outside of it."""

    root: int  # GLOBAL, NAME (global or local of a class body), CELL, IMPORT; TOUCH: an import statement alone
    name: str  # of the variable; of the module where an import is the root
    level: int  # of a relative import
    attributes: tuple[str, ...]
    code: CodeType
    unit: int

    @property
    def line(self) -> int | None:
        """Line of the source file; slow."""
        for start, end, line in self.code.co_lines():
            if start <= self.unit * 2 < end:
                return line
        return None


class References(NamedTuple):
    """All references of a code object and of the code nested in it."""

    chains: tuple[Reference, ...]
    mentions: frozenset[str]  # names that make texts count which do not otherwise: ``__doc__``, ``__annotations__``


_ROOT_GLOBAL, _ROOT_NAME, _ROOT_CELL, _ROOT_FAST, _ATTRIBUTE, _IMPORT, _IMPORT_FROM, _STORE, _CONSTANT, _THROUGH = (
    range(1, 11)
)
_KINDS = {
    "LOAD_GLOBAL": _ROOT_GLOBAL,
    "LOAD_NAME": _ROOT_NAME,
    "LOAD_FROM_DICT_OR_GLOBALS": _ROOT_NAME,
    "LOAD_DEREF": _ROOT_CELL,
    "LOAD_CLASSDEREF": _ROOT_CELL,
    "LOAD_FROM_DICT_OR_DEREF": _ROOT_CELL,
    "LOAD_FAST": _ROOT_FAST,
    "LOAD_FAST_CHECK": _ROOT_FAST,
    "LOAD_ATTR": _ATTRIBUTE,
    "LOAD_METHOD": _ATTRIBUTE,
    "IMPORT_NAME": _IMPORT,
    "IMPORT_FROM": _IMPORT_FROM,
    "STORE_FAST": _STORE,
    "STORE_NAME": _STORE,
    "STORE_GLOBAL": _STORE,
    "STORE_DEREF": _STORE,
    "LOAD_CONST": _CONSTANT,
    "PUSH_NULL": _THROUGH,
    "POP_TOP": _THROUGH,
    "SWAP": _THROUGH,
    "ROT_TWO": _THROUGH,
}
_KIND = [0] * 1024  # beyond 255: labels and handlers of the normal form
for _name, _number in _KINDS.items():
    if opcode.opmap.get(_name, 256) < 256:
        _KIND[opcode.opmap[_name]] = _number
_STORE_FAST, _STORE_DEREF = opcode.opmap["STORE_FAST"], opcode.opmap["STORE_DEREF"]

_Binding = tuple[str, int, tuple[str, ...]]  # module, level, attributes


def _local(code: CodeType, index: int) -> str:
    """Name a fast local or, from Python 3.11 on, a cell that shares its numbering."""
    if index < len(code.co_varnames):
        return code.co_varnames[index]
    return _cell(code, index)


def _cell(code: CodeType, index: int) -> str:
    """Name the operand of an instruction on cells."""
    named = getattr(code, "_varname_from_oparg", None)
    if named is not None:
        return str(named(index))
    return (code.co_cellvars + code.co_freevars)[index]


class _Scan:
    """One pass over one code object."""

    def __init__(self, code: CodeType, bound: dict[str, _Binding], found: list[Reference]) -> None:
        self.code = code
        self.bound = bound  # variables that imports bind
        self.found = found
        self.root: tuple[int, str, int] | None = None
        self.attributes: list[str] = []
        self.unit = 0
        self.dynamic = False  # the chain is the first argument of getattr or one of its kin
        self.expecting = False
        self.pending: _Binding | None = None
        self.plain = False  # the import being read has no ``from``

    def run(self) -> None:
        code = self.code
        operations, operands, units = stream(code)
        names, consts = code.co_names, code.co_consts
        for index, op in enumerate(operations):
            kind = _KIND[op]
            if kind == _ATTRIBUTE and self.root is not None:
                self.attributes.append(names[operands[index] >> NAME_SHIFT[op]])
                continue
            if kind == _THROUGH and (self.expecting or self.pending):
                continue
            if self.root is not None:
                self.close(consts[operands[index]] if op == LOAD_CONST else None)
            if kind == 0:
                self.expecting = False
                self.pending = None
            elif kind == _CONSTANT:
                self.expecting = False
                constant = consts[operands[index]]
                if isinstance(constant, CodeType):
                    _Scan(constant, dict(self.bound), self.found).run()
            elif kind == _ROOT_FAST:
                if self.bound:
                    self.variable(_local(code, operands[index]), None, units[index])
                else:
                    self.expecting = False
            elif kind in (_ROOT_GLOBAL, _ROOT_NAME):
                name = names[operands[index] >> NAME_SHIFT[op]]
                self.variable(name, GLOBAL if kind == _ROOT_GLOBAL else NAME, units[index])
            elif kind == _ROOT_CELL:
                self.variable(_cell(code, operands[index]), CELL, units[index])
            elif kind == _IMPORT:
                self.importing(index, names[operands[index]], units[index])
            elif kind == _IMPORT_FROM:
                if self.pending is not None or not self.plain:
                    self.import_from(names[operands[index]])
            elif kind == _STORE:
                self.store(op, operands[index])
        if self.root is not None:
            self.close(None)

    def variable(self, name: str, root: int | None, unit: int) -> None:
        """Begin a chain at a variable, or at the module that an import bound to it."""
        binding = self.bound.get(name)
        self.attributes = []
        self.unit = unit
        self.dynamic, self.expecting = self.expecting, False
        if binding is not None:
            self.root = (IMPORT, binding[0], binding[1])
            self.attributes.extend(binding[2])
        elif root is not None:
            self.root = (root, name, 0)
            self.expecting = root in (GLOBAL, NAME) and name in _DYNAMIC
        else:
            self.root = None

    def close(self, constant: object) -> None:
        """End the chain: the value is used."""
        root, name, level = self.root or (GLOBAL, "", 0)
        if self.dynamic:
            self.attributes.append(constant if isinstance(constant, str) else UNKNOWN)
        if self.attributes:
            self.expecting = False
        self.found.append(Reference(root, name, level, tuple(self.attributes), self.code, self.unit))
        self.root = None
        self.dynamic = False

    def importing(self, index: int, name: str, unit: int) -> None:
        """Read ``import name`` or the first half of ``from name import ...``."""
        operations, operands, _ = stream(self.code)
        level, names = (
            self.code.co_consts[operands[i]] if i >= 0 and operations[i] == LOAD_CONST else None
            for i in (index - 2, index - 1)
        )
        level = level if isinstance(level, int) else 0
        self.plain = names is None
        self.source = (name, level)
        self.found.append(Reference(TOUCH, name, level, tuple(names or ()), self.code, unit))
        self.pending = (name.partition(".")[0], 0, ()) if self.plain else None

    def import_from(self, name: str) -> None:
        if self.plain and self.pending is not None:  # import a.b as c: takes b of a
            module, level, attributes = self.pending
            self.pending = (module, level, (*attributes, name))
        else:
            self.pending = (*self.source, (name,))

    def store(self, op: int, operand: int) -> None:
        """Bind the imported module to the variable that it is stored in."""
        self.expecting = False
        if self.pending is None:
            return
        if op == _STORE_FAST:
            name = _local(self.code, operand)
        elif op == _STORE_DEREF:
            name = _cell(self.code, operand)
        else:
            name = self.code.co_names[operand]
        self.bound[name] = self.pending
        self.pending = None


def _mentions(code: CodeType) -> frozenset[str]:
    found = _SPECIAL.intersection(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _mentions(constant)
    return found


_MEMO_LIMIT = 4096
_known: dict[int, tuple[CodeType, References]] = {}


def references(code: CodeType) -> References:
    """Return what ``code`` refers to, in the order in which it is reached; memoised."""
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= _MEMO_LIMIT:
            _known.clear()
        found: list[Reference] = []
        _Scan(code, {}, found).run()
        distinct = {reference[:4]: reference for reference in reversed(found)}
        chains = tuple(sorted(distinct.values(), key=found.index)) if len(distinct) < len(found) else tuple(found)
        known = _known[id(code)] = (code, References(chains, _mentions(code)))
    return known[1]
