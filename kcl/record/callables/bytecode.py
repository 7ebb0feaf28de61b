"""The normal form of bytecode: the instructions of a code object without the noise of how its text was laid out.

Bytecode is not free of noise. A line broken inside ``with``, ``try`` or a comprehension leaves NOPs, keeps jumps to
jumps and prevents the joining of two instructions. A class body stores its first line. In the normal form, instructions
stand in the order in which they are reached, jumps lead to labels, and unconditional jumps are followed. A short end of
a function is copied to each jump to it. The exception table is one handler per instruction.

Read off CPython 3.10 to 3.13: `Lib/opcode.py`, `Python/compile.c`, `Python/flowgraph.c`,
`Objects/exception_handling_notes.txt`.
"""

from __future__ import annotations

import opcode
from collections.abc import Iterator
from itertools import islice
from types import CodeType
from typing import NamedTuple

_OPERATIONS = {name: op for name, op in opcode.opmap.items() if op < 256}  # those above are the compiler's own


def _caches(name: str) -> int:
    """Return the number of cache units that follow an instruction of this name."""
    entries = getattr(opcode, "_inline_cache_entries", ())
    if isinstance(entries, dict):
        return int(entries.get(name, 0))
    return int(entries[_OPERATIONS[name]]) if _OPERATIONS[name] < len(entries) else 0


def _numbers(*names: str) -> frozenset[int]:
    return frozenset(_OPERATIONS[name] for name in names if name in _OPERATIONS)


_NONE = -1
_EXTENDED = _OPERATIONS["EXTENDED_ARG"]
LOAD_CONST = _OPERATIONS["LOAD_CONST"]
_RETURN_VALUE = _OPERATIONS["RETURN_VALUE"]
_RETURN_CONST = _OPERATIONS.get("RETURN_CONST", _NONE)
_STORE_NAME = _OPERATIONS["STORE_NAME"]
_SWAP = _OPERATIONS.get("SWAP", _NONE)
_NOP = _OPERATIONS["NOP"]
_POP_TOP = _OPERATIONS["POP_TOP"]
_STORE_FAST = _OPERATIONS["STORE_FAST"]
_CALL = _OPERATIONS.get("CALL_FUNCTION", _NONE)
_FORWARD = _numbers("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
_ENDS = _numbers("RETURN_VALUE", "RAISE_VARARGS", "RERAISE")
_JUMP_ABSOLUTE = frozenset(op for op in opcode.hasjabs if op < 256)
_JUMP_RELATIVE = frozenset(op for op in opcode.hasjrel if op < 256)
_JUMPS = _JUMP_ABSOLUTE | _JUMP_RELATIVE
_BACKWARD = frozenset(op for name, op in _OPERATIONS.items() if "BACKWARD" in name)
_AFTER = {op: 1 + _caches(name) for name, op in _OPERATIONS.items()}
# the two instructions that Python 3.13 joins where both stand on one line
_JOINED = {
    _OPERATIONS[name]: (_OPERATIONS[first], _OPERATIONS[second])
    for name, first, second in (
        ("LOAD_FAST_LOAD_FAST", "LOAD_FAST", "LOAD_FAST"),
        ("STORE_FAST_LOAD_FAST", "STORE_FAST", "LOAD_FAST"),
        ("STORE_FAST_STORE_FAST", "STORE_FAST", "STORE_FAST"),
    )
    if name in _OPERATIONS
}
# for each operation, whether its operand is an index of a constant, and of a name
OF_CONST = bytes(int(op in opcode.hasconst) for op in range(256))
OF_NAME = bytes(int(op in opcode.hasname) for op in range(256))
# the number of low bits of an operand that are flags, not the index of a name; Python 3.11 and 3.12 began to use them
NAME_SHIFT = [0] * 256
NAME_SHIFT[_OPERATIONS["LOAD_GLOBAL"]] = int(_caches("LOAD_GLOBAL") > 0)
NAME_SHIFT[_OPERATIONS["LOAD_ATTR"]] = int("LOAD_METHOD" not in _OPERATIONS)
if "LOAD_SUPER_ATTR" in _OPERATIONS:
    NAME_SHIFT[_OPERATIONS["LOAD_SUPER_ATTR"]] = 2

_NOISE = _numbers("NOP", "RESUME", "CACHE", "PUSH_NULL", "EXTENDED_ARG")


def _threads() -> dict[tuple[int, int], tuple[int, bool]]:
    """Return the jumps that Python 3.10 and 3.11 make of ``and`` inside ``or`` where all stands on one line.

    (a jump, the jump it leads to) -> (the jump to take instead, whether to the second's target or behind it)
    """
    table = {}
    for ours, other in (("FALSE", "TRUE"), ("TRUE", "FALSE")):
        keep = _OPERATIONS.get(f"JUMP_IF_{ours}_OR_POP", _NONE)
        pops = [_OPERATIONS.get(name.format(ours), _NONE) for name in ("POP_JUMP_IF_{}", "POP_JUMP_FORWARD_IF_{}")]
        drop = max(pops)
        table[keep, keep] = (keep, True)
        table[keep, drop] = (drop, True)
        table[keep, _OPERATIONS.get(f"JUMP_IF_{other}_OR_POP", _NONE)] = (drop, False)
        for name in ("POP_JUMP_IF_{}", "POP_JUMP_FORWARD_IF_{}", "POP_JUMP_BACKWARD_IF_{}"):
            table[keep, _OPERATIONS.get(name.format(other), _NONE)] = (drop, False)
            table[keep, _OPERATIONS.get(name.format(ours), _NONE)] = (drop, True)
    return {pair: what for pair, what in table.items() if _NONE not in pair}


_THREADS = _threads()


def _branches() -> dict[int, tuple[int, bool]]:
    """Return the jumps that have an opposite: jump -> (the jump of the normal form, whether the first is its opposite).

    Python 3.11 names a direction in each jump too; labels need none.
    """
    table = {}
    for direction in ("", "FORWARD_", "BACKWARD_"):
        for normal, opposite in (("IF_FALSE", "IF_TRUE"), ("IF_NONE", "IF_NOT_NONE")):
            for condition in (normal, opposite):
                op = _OPERATIONS.get(f"POP_JUMP_{direction}{condition}", _NONE)
                stands = _OPERATIONS.get(f"POP_JUMP_{direction.replace('BACKWARD', 'FORWARD')}{normal}", _NONE)
                table[op] = (stands, condition == opposite)
    table.pop(_NONE, None)
    return table


_BRANCHES = _branches()
# stores before which the compiler may drop a SWAP; instructions that can raise nothing, so their handlers do not matter
_STORES = _numbers("STORE_FAST", "POP_TOP")
_QUIET = _numbers("NOP", "LOAD_CONST", "STORE_FAST", "POP_TOP", "SWAP", "COPY", "PUSH_NULL") | (
    _numbers("LOAD_FAST") if "LOAD_FAST_CHECK" in _OPERATIONS else frozenset()
)

# of the normal form; the interpreter's own numbers up here never appear in ``co_code``
# The compiler calls a method in another way where its module imports the object's name, used or not: it guesses.
# So calls of methods and of functions are written alike, and no NULL is pushed before either.
_METHODLESS = bytes(
    {_OPERATIONS.get("LOAD_METHOD"): _OPERATIONS["LOAD_ATTR"], _OPERATIONS.get("CALL_METHOD"): _CALL}.get(op, op)
    for op in range(256)
)
_LABEL, _GOTO, _HANDLER = 251, 252, 253
MARKERS = frozenset({_LABEL, _HANDLER})  # no instructions
_SHORT = 8  # instructions at the end of a function that are copied to each jump to it; the compiler copies up to 4
# names that a class or module body stores about its own text
_ABOUT_TEXT = frozenset({"__doc__", "__firstlineno__", "__static_attributes__"})


class Stream(NamedTuple):
    """The instructions of one code object in normal order."""

    operations: bytes
    operands: list[int]
    units: list[int]  # index of the two-byte unit in ``co_code`` that each came from, for line numbers


class _Raw(NamedTuple):
    operations: list[int]
    operands: list[int]
    units: list[int]
    targets: dict[int, int]  # instruction -> instruction it may jump to
    handlers: list[tuple[int, int] | None]  # instruction -> (handler, depth * 2 + lasti); empty without a table


def _read(code: CodeType) -> _Raw:
    """Read the instructions, without noise, with jumps as indices of instructions."""
    operations, operands, units, jumps = _expand(code)
    table: bytes = getattr(code, "co_exceptiontable", b"")
    position = _positions(units, len(code.co_code) // 2)
    targets = {index: position[_target(operations[index], operands[index], units[index])] for index in jumps}
    return _Raw(operations, operands, units, targets, _handlers(table, position))


def _expand(code: CodeType) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return the operations, their operands and units, and the indices of the jumps; long operands are put together."""
    operations: list[int] = []
    operands: list[int] = []
    units: list[int] = []
    jumps: list[int] = []
    extended = 0
    for unit, (op, argument) in enumerate(zip(code.co_code[::2], code.co_code[1::2], strict=True)):
        operand = argument | extended
        extended = operand << 8 if op == _EXTENDED else 0
        if op in _NOISE:
            continue
        if op == _STORE_NAME and code.co_names[operand] in _ABOUT_TEXT and operations and operations[-1] == LOAD_CONST:
            for column in (operations, operands, units):
                column.pop()
            continue
        if op in _JUMPS:
            jumps.append(len(operations))
        for single, own in _parts(op, operand):
            operations.append(single)
            operands.append(own)
            units.append(unit)
    return operations, operands, units, jumps


def _positions(units: list[int], count: int) -> list[int]:
    """Return, for each unit and for the end, the instruction that it begins or comes before."""
    position: list[int] = []
    for index, unit in enumerate(units):
        position.extend([index] * (unit + 1 - len(position)))
    position.extend([len(units)] * (count + 1 - len(position)))
    return position


def _target(op: int, operand: int, unit: int) -> int:
    """Return the unit that a jump leads to."""
    if op in _JUMP_ABSOLUTE:
        return operand
    return unit + _AFTER[op] + (-operand if op in _BACKWARD else operand)


def _parts(op: int, operand: int) -> list[tuple[int, int]]:
    """Return the instructions that the compiler may have joined to one, with their operands."""
    if op == _RETURN_CONST:
        return [(LOAD_CONST, operand), (_RETURN_VALUE, 0)]
    if op in _JOINED:
        first, second = _JOINED[op]
        return [(first, operand >> 4), (second, operand & 15)]
    return [(op, operand)]


def _exchange(operations: list[int], operands: list[int], targets: dict[int, int]) -> None:
    """Exchange stores, not values, and drop a store that another overwrites at once: the compiler does so in a line."""
    entered = set(targets.values())
    changed = True
    while changed:
        changed = False
        for index in range(len(operations) - 2, -1, -1):
            if operations[index] == _SWAP:
                changed |= _exchange_stores(operations, operands, index, entered)
            elif operations[index] == _STORE_FAST:
                changed |= _drop_overwritten(operations, operands, index, entered)


def _followers(operations: list[int], index: int, entered: set[int]) -> Iterator[int]:
    """Yield the places of the stores and pops that always follow ``index``; NOPs between them are skipped."""
    for later in range(index + 1, len(operations)):
        if later in entered or (operations[later] not in _STORES and operations[later] != _NOP):
            return
        if operations[later] != _NOP:
            yield later


def _drop_overwritten(operations: list[int], operands: list[int], index: int, entered: set[int]) -> bool:
    for later in _followers(operations, index, entered):
        if operations[later] == _STORE_FAST:
            if operands[later] == operands[index]:
                operations[index], operands[index] = _POP_TOP, 0
                return True
            return False
    return False


def _exchange_stores(operations: list[int], operands: list[int], index: int, entered: set[int]) -> bool:
    """Drop the SWAP at ``index`` where stores of different variables follow, and exchange these."""
    places = list(islice(_followers(operations, index, entered), operands[index]))
    stored = [operands[place] for place in places if operations[place] == _STORE_FAST]
    if len(places) < operands[index] or len(set(stored)) < len(stored):
        return False
    operations[index] = _NOP
    first, last = places[0], places[-1]
    for column in (operations, operands):
        column[first], column[last] = column[last], column[first]
    return True


def _handlers(table: bytes, position: list[int]) -> list[tuple[int, int] | None]:
    """Read the exception table of Python 3.11 and later: base-64 varints of start, length, target, depth and lasti."""
    if not table:
        return []
    numbers: list[int] = []
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            numbers.append(number)
            number = 0
    handlers: list[tuple[int, int] | None] = [None] * position[-1]
    for start, length, target, depth in zip(*[iter(numbers)] * 4, strict=True):
        for index in range(position[start], position[start + length]):
            handlers[index] = (position[target], depth)
    return handlers


class _Order:
    """Puts instructions into the order in which they are reached."""

    def __init__(self, raw: _Raw) -> None:
        self.raw = raw
        self.tails = self._tails()
        self.labels: dict[object, int] = {}
        self.waiting: list[int] = []
        self.placed: dict[int, int] = {}
        self.operations: list[int] = []
        self.operands: list[int] = []
        self.units: list[int] = []

    def _tails(self) -> list[int]:
        """Count, for every instruction, those to the end of the function; large where a branch comes in between."""
        operations, targets = self.raw.operations, self.raw.targets
        tails = [_SHORT + 1] * (len(operations) + 1)
        for index in range(len(operations) - 1, -1, -1):
            op = operations[index]
            if op in _ENDS:
                tails[index] = 1
            elif op in _FORWARD:
                tails[index] = tails[targets[index]] if targets[index] > index else _SHORT + 1
            elif index not in targets:
                tails[index] = tails[index + 1] + 1
        return tails

    def resolve(self, index: int) -> int:
        """Follow unconditional jumps; a jump that leads to itself stays."""
        operations, targets = self.raw.operations, self.raw.targets
        seen = set()
        while index < len(operations) and operations[index] in _FORWARD and index not in seen:
            seen.add(index)
            index = targets[index]
        return index

    def thread(self, op: int, target: int) -> tuple[int, int]:
        """Follow a conditional jump that leads to a conditional jump on the same value."""
        while True:
            target = self.resolve(target)
            op_there = self.raw.operations[target] if target < len(self.raw.operations) else _NONE
            instead = _THREADS.get((op, op_there))
            if instead is None:
                return op, target
            op = instead[0]
            target = self.raw.targets[target] if instead[1] else target + 1

    def label(self, index: int) -> int:
        """Number an instruction that is jumped to; equal short ends of the function share a number."""
        index = self.resolve(index)
        which = self.tail(index) if self.tails[index] <= _SHORT else index
        number = self.labels.get(which)
        if number is None:
            number = self.labels[which] = len(self.labels)
            self.waiting.append(index)
        return number

    def tail(self, index: int) -> tuple[object, ...]:
        """Return the instructions of a short end of the function."""
        operations, operands, _, _, handlers = self.raw
        does: list[object] = []
        while True:
            index = self.resolve(index)
            op = operations[index]
            if op != _NOP:
                does.append((op, operands[index], handlers[index] if handlers and op not in _QUIET else None))
            if op in _ENDS:
                return tuple(does)
            index += 1

    def emit(self, op: int, operand: int, unit: int) -> None:
        self.operations.append(op)
        self.operands.append(operand)
        self.units.append(unit)

    def run(self) -> Stream:
        self.block(self.resolve(0))
        for number, index in enumerate(self.waiting):  # grows while it is read
            self.emit(_LABEL, number, -1)
            self.block(index)
        return Stream(bytes(self.operations).translate(_METHODLESS), self.operands, self.units)

    def block(self, index: int) -> None:
        """Emit instructions from ``index`` to an end, or to an instruction that was emitted before."""
        operations, operands, units, targets, handlers = self.raw
        handler: tuple[int, int] | None = None
        copying = self.tails[index] <= _SHORT
        while index < len(operations):
            op = operations[index]
            if not copying:
                placed = self.placed.get(index)
                if placed is not None:
                    self.emit(_GOTO, placed, -1)
                    return
                self.placed[index] = len(self.operations)
            if op in _FORWARD:
                index = self.resolve(index)
                copying = copying or self.tails[index] <= _SHORT
                if operations[index] in _FORWARD:
                    self.emit(_GOTO, self.placed.get(index, -1), -1)
                    return
                continue
            if handlers and handlers[index] != handler and op not in _QUIET:
                handler = handlers[index]
                if handler is None:
                    self.emit(_HANDLER, 0, -1)
                else:
                    self.emit(_HANDLER, 1 + self.label(handler[0]), -1)
                    self.emit(_HANDLER, handler[1], -1)
            if index in targets:
                op, target = self.thread(op, targets[index])
                stands, opposite = _BRANCHES.get(op, (op, False))
                if opposite:
                    self.emit(stands, self.label(index + 1), units[index])
                    index = self.resolve(target)
                    copying = copying or self.tails[index] <= _SHORT
                    continue
                self.emit(stands, self.label(target), units[index])
            elif op != _NOP:
                self.emit(op, operands[index], units[index])
            if op in _ENDS:
                return
            index += 1


def normal(code: CodeType) -> Stream:
    """Return the instructions of ``code`` in normal order."""
    raw = _read(code)
    _exchange(raw.operations, raw.operands, raw.targets)
    return _Order(raw).run()
