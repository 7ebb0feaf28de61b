"""The references of a code object: globals, cells and imported modules, each with the attributes taken of it.

The scan reads them off the bytecode without running it. It follows a name that an ``import`` inside the function binds
to the module. It also follows ``getattr(module, "name")`` with a name that stands in the code.
"""

from __future__ import annotations

import opcode
from types import CodeType

from kcl.record.callables.bytecode import LOAD_CONST, MARKERS, NAME_SHIFT, OF_NAME, normal
from kcl.record.callables.references import CELL, GLOBAL, IMPORT, MENTIONED, NAME, TOUCH, UNKNOWN, Reference, References

_DYNAMIC = frozenset({"getattr", "setattr", "hasattr", "delattr"})
_STORED = frozenset({"__doc__", "__annotations__", "__module__"})
_FUNCTION = 1  # inspect.CO_OPTIMIZED

_GLOBAL, _NAME, _CELL, _FAST, _ATTRIBUTE, _CONSTANT, _IMPORT, _IMPORT_FROM, _STORE, _THROUGH = range(1, 11)
_INSTRUCTIONS = {
    _GLOBAL: "LOAD_GLOBAL",
    _NAME: "LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS",
    _CELL: "LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF",
    _FAST: "LOAD_FAST LOAD_FAST_CHECK",
    _ATTRIBUTE: "LOAD_ATTR LOAD_METHOD",
    _CONSTANT: "LOAD_CONST",
    _IMPORT: "IMPORT_NAME",
    _IMPORT_FROM: "IMPORT_FROM",
    _STORE: "STORE_FAST STORE_NAME STORE_GLOBAL STORE_DEREF",
    _THROUGH: "PUSH_NULL POP_TOP SWAP ROT_TWO",
}
_KINDS = {name: kind for kind, names in _INSTRUCTIONS.items() for name in names.split()}
_KIND = bytes(_KINDS.get(name, 0) for name in opcode.opname[:256])
_CALLS = bytes(opcode.opmap[name] for name in ("CALL", "CALL_FUNCTION") if name in opcode.opmap)
_BEFORE_CALLS = bytes(opcode.opmap[name] for name in ("PRECALL",) if name in opcode.opmap)
_LOADS = frozenset({_GLOBAL, _NAME, _CELL, _FAST})
_ROOTS = {_GLOBAL: GLOBAL, _NAME: NAME, _CELL: CELL}
_STORE_FAST, _STORE_DEREF = opcode.opmap["STORE_FAST"], opcode.opmap["STORE_DEREF"]
_STORE_GLOBAL, _STORE_NAME = opcode.opmap["STORE_GLOBAL"], opcode.opmap["STORE_NAME"]

_Binding = tuple[str, int, tuple[str, ...]]  # module, level, attributes
_Bound = dict[tuple[bool, str], tuple[_Binding, ...]]  # (whether it is global, name of a variable) -> its imports
_Found = dict[tuple[int, str, int, tuple[str, ...]], Reference]


def _cell(code: CodeType, index: int) -> str:
    """Name the operand of an instruction on cells."""
    named = getattr(code, "_varname_from_oparg", None)
    if named is not None:
        return str(named(index))
    return (code.co_cellvars + code.co_freevars)[index]


class _Scan:
    """One pass over one code object."""

    def __init__(self, code: CodeType, outer: _Bound, found: _Found, mentions: set[str]) -> None:
        self.code = code
        self.operations, self.operands, self.units = normal(code)
        self.kinds = self.operations.translate(_KIND)
        self.outer = outer  # variables that imports bind outside of this code
        self.bound = dict(outer)
        self.found = found
        self.mentions = mentions

    def run(self) -> None:
        kinds = self.kinds
        index = kinds.find(_IMPORT)
        while index >= 0:
            self.importing(index)
            index = kinds.find(_IMPORT, index + 1)
        self.chains()
        self.mention()
        seen = self.bound
        if seen and not self.code.co_flags & _FUNCTION:  # functions do not see the variables of a class around them
            seen = {place: bound for place, bound in seen.items() if place[0] or self.outer.get(place) == bound}
        for constant in self.code.co_consts:
            if type(constant) is CodeType:
                _Scan(constant, seen, self.found, self.mentions).run()

    def mention(self) -> None:
        """Note the names that make texts count."""
        code = self.code
        if not MENTIONED.isdisjoint(code.co_names):
            found = MENTIONED.intersection(code.co_names)
            # the body of a class or module uses these names when it stores its own
            self.mentions |= found if code.co_flags & _FUNCTION else found - _STORED
        for constant in code.co_consts:
            if type(constant) is tuple:  # the names of keyword arguments
                self.mentions |= MENTIONED.intersection([item for item in constant if type(item) is str])

    def chains(self) -> None:
        """Read every variable with the attributes that the code takes of it."""
        kinds = self.kinds
        count = len(kinds)
        expected = -1  # where the first argument of a getattr would stand
        for index, kind in enumerate(kinds):
            if kind not in _LOADS:
                continue
            name = self.loaded(index)
            bindings = self.bound.get((kind == _GLOBAL, name), ())
            if kind == _NAME and not bindings:
                bindings = self.bound.get((True, name), ())
            if not bindings and kind == _FAST:
                continue
            end = index + 1
            while end < count and kinds[end] == _ATTRIBUTE:
                end += 1
            attributes = tuple([self.named(place) for place in range(index + 1, end)])
            if index == expected:
                attributes += (self.written(end),)
                self.mentions |= MENTIONED.intersection(attributes)
            if name in _DYNAMIC and not attributes:
                expected = end
                while expected < count and kinds[expected] == _THROUGH:
                    expected += 1
            for module, level, chain in bindings:
                self.add(IMPORT, module, level, chain + attributes, index)
            if not bindings:
                self.add(_ROOTS[kind], name, 0, attributes, index)

    def loaded(self, index: int) -> str:
        """Name the variable that an instruction loads."""
        kind, operand = self.kinds[index], self.operands[index]
        if kind in (_GLOBAL, _NAME):
            return self.named(index)
        if kind == _CELL:
            return _cell(self.code, operand)
        variables = self.code.co_varnames
        return variables[operand] if operand < len(variables) else ""  # beyond: Python 3.13 takes a cell for a closure

    def named(self, index: int) -> str:
        """Return the name that an instruction has among those of the code."""
        return self.code.co_names[self.operands[index] >> NAME_SHIFT[self.operations[index]]]

    def written(self, index: int) -> str:
        """Return the name that is the second argument of a getattr, where all of it stands at ``index``."""
        constant = self.constant(index) if index < len(self.kinds) else None
        if not isinstance(constant, str):
            return UNKNOWN
        arguments = 2
        for later in range(index + 1, len(self.kinds)):
            operation, kind = self.operations[later], self.kinds[later]
            if operation in _CALLS:
                return constant if self.operands[later] == arguments else UNKNOWN
            if kind in _LOADS or kind == _CONSTANT:
                arguments += 1
            elif kind not in (_ATTRIBUTE, _THROUGH) and operation not in _BEFORE_CALLS:
                return UNKNOWN  # an operand of another expression, or a computed default
        return UNKNOWN

    def add(self, root: int, name: str, level: int, attributes: tuple[str, ...], index: int) -> None:
        place = (root, name, level, attributes)
        if place not in self.found:
            self.found[place] = Reference(root, name, level, attributes, self.code, self.units[index])

    def importing(self, index: int) -> None:
        """Read ``import name`` or ``from name import ...`` and the variables that it binds."""
        name = self.code.co_names[self.operands[index]]
        level, names = self.before(index)
        level = level if isinstance(level, int) else 0
        listed = tuple(map(str, names)) if isinstance(names, tuple) else ()
        self.add(TOUCH, name, level, listed, index)
        pending: _Binding | None = None if names is not None else (name.partition(".")[0], 0, ())
        for later in range(index + 1, len(self.kinds)):
            kind = self.kinds[later]
            if kind == _IMPORT_FROM:
                attribute = self.code.co_names[self.operands[later]]
                if names is None and pending is not None:  # import a.b as c: takes b of a
                    pending = (pending[0], 0, (*pending[2], attribute))
                else:
                    pending = (name, level, (attribute,))
            elif kind == _STORE:
                if pending is not None:
                    self.bind(later, pending)
                pending = None
                if names is None:
                    return
            elif kind != _THROUGH and self.operations[later] not in MARKERS:
                return

    def before(self, index: int) -> tuple[object, object]:
        """Return the two constants that stand before an instruction; a block may begin between them."""
        found: list[object] = []
        while index > 0 and len(found) < 2:
            index -= 1
            if self.operations[index] not in MARKERS:
                found.append(self.constant(index))
        return (found[1], found[0]) if len(found) == 2 else (None, None)

    def bind(self, index: int, binding: _Binding) -> None:
        """Note the import that a store binds; several imports may bind one variable, and one of them succeeds."""
        name = self.stored(index)
        is_module = self.code.co_name == "<module>"
        for is_global in {is_module or self.operations[index] == _STORE_GLOBAL, False}:
            self.bound[is_global, name] = (*self.bound.get((is_global, name), ()), binding)

    def constant(self, index: int) -> object:
        if index < 0 or self.operations[index] != LOAD_CONST:
            return None
        value: object = self.code.co_consts[self.operands[index]]
        return value

    def stored(self, index: int) -> str:
        """Name the variable that a store binds."""
        op, operand = self.operations[index], self.operands[index]
        if op == _STORE_FAST:
            return self.code.co_varnames[operand]
        return _cell(self.code, operand) if op == _STORE_DEREF else self.code.co_names[operand]


def mention(code: CodeType, name: str) -> Reference | None:
    """Find the first place that takes an attribute of this name; slow."""
    for operation, operand, unit in zip(*normal(code), strict=True):
        if OF_NAME[operation] and code.co_names[operand >> NAME_SHIFT[operation]] == name:
            return Reference(GLOBAL, name, 0, (), code, unit)
    found = [mention(constant, name) for constant in code.co_consts if isinstance(constant, CodeType)]
    return next((reference for reference in found if reference is not None), None)


def references(code: CodeType) -> References:
    """Return the references of ``code``."""
    found: _Found = {}
    mentions: set[str] = set()
    scan = _Scan(code, {}, found, mentions)
    scan.run()
    stores = zip(scan.operations, scan.operands, strict=True)
    stored = {code.co_names[name] for op, name in stores if op == _STORE_NAME}  # a function stores none this way
    return References(list(found.values()), frozenset(mentions), frozenset(stored))
