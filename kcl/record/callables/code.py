"""The digest of a code object: the behaviour of a function, without the noise of how its text was laid out.

The digest covers the normal form of the instructions (`kcl.record.callables.bytecode`), with the constants and names
that they use in the order of use. So it does not change with comments, white space, line breaks, positions, file names,
docstrings, unused constants and the hash seed. Two functions with one digest do the same. The reverse holds for every
reformatting known to us. Digests of different Python versions are not comparable: the Python version is a part of
every key.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from types import CodeType

from kcl.record.callables.bytecode import NAME_SHIFT, OF_CONST, OF_NAME, normal

# optimized, new locals, *args, **kwargs, generator, coroutine, iterable coroutine, asynchronous generator
_FLAGS = 0x001 | 0x002 | 0x004 | 0x008 | 0x020 | 0x080 | 0x100 | 0x200
_BETWEEN = "\0\0"


def _constant(value: object) -> str:
    """Encode a constant of the compiler with its type."""
    kind = type(value)
    if kind in _AS_WRITTEN:
        return repr(value)
    if isinstance(value, CodeType):
        return f"code {digest(value)}"
    if isinstance(value, tuple):
        return f"({''.join([_constant(item) + ', ' for item in value])})"
    if isinstance(value, frozenset):  # its order changes with the hash seed
        return f"{{{', '.join(sorted([_constant(item) for item in value]))}}}"
    if isinstance(value, float):
        return f"float {struct.pack('<d', value).hex()}"
    if isinstance(value, complex):
        return f"complex {struct.pack('<dd', value.real, value.imag).hex()}"
    raise TypeError(f"the compiler makes no constants of type {kind.__name__}")


# equal texts are equal values of one type
_AS_WRITTEN = frozenset({type(None), bool, int, str, bytes, type(...)})


def digest(code: CodeType) -> str:
    """Return the digest of ``code`` and of its nested code, as 64 hexadecimal digits.

    Not in it: comments, white space, line breaks, positions, file names, docstrings, unused constants, the hash seed.
    """
    operations, operands, _units = normal(code)
    names: list[str] = []
    constants: list[str] = []
    for index, (operation, operand) in enumerate(zip(operations, operands, strict=True)):
        if OF_NAME[operation]:
            shift = NAME_SHIFT[operation]
            names.append(code.co_names[operand >> shift])
            operands[index] = operand & 2 if shift == 2 else 0  # super() of two arguments; calls are written alike
        elif OF_CONST[operation]:
            constants.append(_constant(code.co_consts[operand]))
            operands[index] = 0
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _FLAGS)
    lists = (code.co_varnames, code.co_cellvars, code.co_freevars, names, constants)
    # no name and no text is empty or holds a NUL, so each item's list is certain
    head = _BETWEEN.join([code.co_name, str(numbers), *["\0".join(items) for items in lists]])
    hasher = hashlib.sha256(head.encode("utf-8", "surrogatepass"))
    hasher.update(operations)
    hasher.update(bytes(operands) if max(operands, default=0) < 256 else b"wide" + array("Q", operands).tobytes())
    return hasher.hexdigest()
