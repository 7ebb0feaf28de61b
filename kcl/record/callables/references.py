"""References: the globals, cells and imports outside of itself that code refers to, with the attributes taken of them.

A chain, ``geometry.tiles.square`` for example, is one reference: a root and two attributes.
"""

from __future__ import annotations

from types import CodeType
from typing import NamedTuple

GLOBAL, NAME, CELL, IMPORT, TOUCH = range(5)
UNKNOWN = "*"  # an attribute with a computed name
# attributes that tell the code's position in its file
POSITIONS = frozenset(
    ("co_firstlineno", "co_filename", "co_lines", "co_positions", "co_lnotab", "co_linetable", "f_lineno", "tb_lineno")
)
# texts that count only where reached code reads them, each with the names that code reads them by
READERS = {
    "__doc__": {"__doc__", "getdoc"},
    "__module__": {"__module__"},
    "__annotations__": {
        "__annotations__",
        "__dataclass_fields__",
        "get_type_hints",
        "get_annotations",
        "signature",
        "getfullargspec",
    },
}
MENTIONED = POSITIONS.union({"type"}, *READERS.values())  # names that scans note where code uses them


class Reference(NamedTuple):
    """One place in a code object that refers to a name outside of it."""

    root: int  # GLOBAL, NAME (global, or local of a class body), CELL, IMPORT; TOUCH: an import alone
    name: str  # of the variable; of the module where an import is the root
    level: int  # of a relative import
    attributes: tuple[str, ...]
    code: CodeType
    unit: int  # index of the two-byte unit in the bytecode

    @property
    def dotted(self) -> str:
        """The name with its attributes."""
        return ".".join((self.name, *self.attributes))

    def module(self, package: str) -> str:
        """Return the full name of the module that is imported by code in a package."""
        if not self.level:
            return self.name
        base = package.rsplit(".", self.level - 1)[0]
        return f"{base}.{self.name}" if self.name else base

    @property
    def line(self) -> int | None:
        """Line of the source file; slow."""
        for start, end, line in self.code.co_lines():
            if start <= self.unit * 2 < end:
                return line
        return None


class References(NamedTuple):
    """All references of a code object and of its nested code, each once, in the order in which they are reached."""

    chains: list[Reference]
    mentions: frozenset[str]  # names that make other texts count: ``__doc__``, ``__annotations__``
    stored: frozenset[str]  # names that the body of a class or module defines itself
