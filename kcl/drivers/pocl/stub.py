"""The smallest shared library with one symbol: PoCL finds it in the place of a generic function.

PoCL opens the library and looks the symbol up when it is asked for a binary, but runs nothing of it. The layout is
that of the System V gABI: header, program headers, symbol table, hash table, string table, dynamic section.
"""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT = 4, 5, 6, 10, 11
_READ_WRITE = 6
_SEGMENTS = 3
_ALIGNMENT = 0x10000  # the largest page that Linux uses


def symbol_of(kernel: str) -> str:
    """Return the symbol under which PoCL looks for the function of a kernel."""
    return f"_pocl_kernel_{kernel}_workgroup"


def library(symbol: str) -> bytes:
    """Return the bytes of a shared library for this machine that has `symbol`, and no code behind it.

    Raises `ValueError` where the running program is not a 64-bit little-endian ELF file.
    """
    names = b"\0" + symbol.encode("ascii") + b"\0"
    start = _HEADER.size + _SEGMENTS * _SEGMENT.size
    symbols = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + _SYMBOL.pack(1, 0x12, 0, 1, start, 0)
    table = struct.pack("<6I", 1, 2, 1, 0, 0, 0)  # one bucket, two symbols, the chain ends at once; padding
    hash_at = start + len(symbols)
    names_at = hash_at + len(table)
    dynamic_at = names_at + len(names) + -len(names) % 8
    facts = ((_HASH, hash_at), (_STRTAB, names_at), (_SYMTAB, start), (_STRSZ, len(names)), (_SYMENT, 24), (0, 0))
    dynamic = b"".join(struct.pack("<qQ", *fact) for fact in facts)
    size = dynamic_at + len(dynamic)
    segments = (
        _SEGMENT.pack(_LOAD, _READ_WRITE, 0, 0, 0, size, size, _ALIGNMENT),
        _SEGMENT.pack(_DYNAMIC, _READ_WRITE, dynamic_at, dynamic_at, dynamic_at, len(dynamic), len(dynamic), 8),
        _SEGMENT.pack(_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16),
    )
    return b"".join((_header(), *segments, symbols, table, names.ljust(dynamic_at - names_at, b"\0"), dynamic))


def _header() -> bytes:
    try:
        with open("/proc/self/exe", "rb") as stream:
            own = stream.read(_HEADER.size)
    except OSError:
        own = b""
    if len(own) < _HEADER.size or own[:6] != b"\x7fELF\x02\x01":
        raise ValueError("this machine's programs are not 64-bit little-endian ELF files")
    _ident, _kind, machine, _version, _entry, _segments, _sections, flags = _HEADER.unpack(own)[:8]
    ident = b"\x7fELF\x02\x01\x01"
    sizes = (_HEADER.size, _SEGMENT.size, _SEGMENTS, 0, 0, 0)
    return _HEADER.pack(ident, 3, machine, 1, 0, _HEADER.size, 0, flags, *sizes)
