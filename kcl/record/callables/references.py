"""References: what code refers to outside of itself, globals, cells and imports, with the attributes taken of it.

A chain such as ``geometry.tiles.square`` is one reference: a root and two attributes.
"""

from __future__ import annotations

from types import CodeType

GLOBAL, NAME, CELL, IMPORT, TOUCH = range(5)
UNKNOWN = "*"  # an attribute whose name is computed
# attributes that tell where code stands in its file
POSITIONS = frozenset(
    ("co_firstlineno", "co_filename", "co_lines", "co_positions", "co_lnotab", "co_linetable", "f_lineno", "tb_lineno")
)


class Reference:
    """One place in a code object that refers to something outside of it."""

    __slots__ = ("attributes", "code", "level", "name", "root", "unit")

    def __init__(
        self, root: int, name: str, level: int, attributes: tuple[str, ...], code: CodeType, unit: int
    ) -> None:
        self.root = root  # GLOBAL, NAME (global, or local of a class body), CELL, IMPORT; TOUCH: an import alone
        self.name = name  # of the variable; of the module where an import is the root
        self.level = level  # of a relative import
        self.attributes = attributes
        self.code = code
        self.unit = unit

    @property
    def dotted(self) -> str:
        """The name with its attributes."""
        return ".".join((self.name, *self.attributes))

    @property
    def line(self) -> int | None:
        """Line of the source file; slow."""
        for start, end, line in self.code.co_lines():
            if start <= self.unit * 2 < end:
                return line
        return None


class References:
    """All references of a code object and of the code nested in it, each once, in the order of their reach."""

    __slots__ = ("chains", "mentions", "stored")

    def __init__(self, chains: list[Reference], mentions: frozenset[str], stored: frozenset[str]) -> None:
        self.chains = chains
        self.mentions = mentions  # names that make texts count which do not otherwise: ``__doc__``, ``__annotations__``
        self.stored = stored  # names that the body of a class or module defines itself
