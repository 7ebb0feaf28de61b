"""The digest of a code object: what a function does, without the noise of how its text was laid out.

It is taken over the normal form of the instructions (`kcl.record.callables.bytecode`), with the constants and names
that they use in the order of use. So it does not change with comments, white space, line breaks, positions, file names,
docstrings, unused constants and the hash seed. Two functions with one digest do the same; the reverse holds for every
reformatting that we know of. Digests of different Python versions are not comparable: the Python version is a part of
every key.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Callable
from itertools import compress
from types import CodeType

from kcl.record.callables.bytecode import NAME_SHIFT, OF_CONST, OF_NAME, normal

# optimized, new locals, *args, **kwargs, generator, coroutine, iterable coroutine, asynchronous generator
_FLAGS = 0x001 | 0x002 | 0x004 | 0x008 | 0x020 | 0x080 | 0x100 | 0x200
_BETWEEN = "\0\0"


def constant(value: object, nested: Callable[[CodeType], str]) -> str:
    """Encode a constant of the compiler with its type; ``nested`` encodes code objects."""
    kind = type(value)
    if kind in _AS_WRITTEN:
        return repr(value)
    if isinstance(value, CodeType):
        return f"code {nested(value)}"
    if isinstance(value, tuple):
        return f"({''.join([constant(item, nested) + ', ' for item in value])})"
    if isinstance(value, frozenset):  # its order changes with the hash seed
        return f"{{{', '.join(sorted([constant(item, nested) for item in value]))}}}"
    if isinstance(value, float):
        return f"float {struct.pack('<d', value).hex()}"
    if isinstance(value, complex):
        return f"complex {struct.pack('<dd', value.real, value.imag).hex()}"
    raise TypeError(f"the compiler makes no constants of type {kind.__name__}")


# equal texts are equal values of one type
_AS_WRITTEN = frozenset({type(None), bool, int, str, bytes, type(...)})


def digest(code: CodeType) -> str:
    """Return the digest of ``code`` and of the code nested in it, as 64 hexadecimal digits.

    Not in it: comments, white space, line breaks, positions, file names, docstrings, unused constants, the hash seed.
    """
    operations, operands, _units = normal(code)
    every = code.co_names
    names: list[str] = []
    for index in compress(range(len(operations)), operations.translate(OF_NAME)):
        operand = operands[index]
        shift = NAME_SHIFT[operations[index]]
        names.append(every[operand >> shift])
        operands[index] = operand & 2 if shift == 2 else 0  # super() of two arguments; calls are written alike
    used: list[int] = []
    for index in compress(range(len(operations)), operations.translate(OF_CONST)):
        used.append(operands[index])
        operands[index] = 0
    constants = code.co_consts
    texts = {}
    for index in set(used):
        value = constants[index]
        texts[index] = repr(value) if type(value) in _AS_WRITTEN else constant(value, digest)
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _FLAGS)
    lists = (code.co_varnames, code.co_cellvars, code.co_freevars, names, [texts[index] for index in used])
    # no name and no text is empty or holds a NUL: what stands in which list is certain
    head = _BETWEEN.join([code.co_name, str(numbers), *["\0".join(items) for items in lists]])
    hasher = hashlib.sha256(head.encode("utf-8", "surrogatepass"))
    hasher.update(operations)
    hasher.update(bytes(operands) if max(operands, default=0) < 256 else b"wide" + array("Q", operands).tobytes())
    return hasher.hexdigest()
