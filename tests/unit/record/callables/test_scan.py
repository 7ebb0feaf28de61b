"""kcl.record.callables.scan: what a code object refers to."""

from __future__ import annotations

import textwrap
from types import CodeType

import pytest

from kcl.record.callables.references import CELL, GLOBAL, IMPORT, NAME, TOUCH, Reference
from kcl.record.callables.scan import references


def function(source: str) -> CodeType:
    """Return the code of the first function in ``source``."""
    module = compile(textwrap.dedent(source), "<test>", "exec", dont_inherit=True)
    return next(item for item in module.co_consts if isinstance(item, CodeType))


def found(body: str) -> set[tuple[int, str]]:
    """Return root and dotted name of all references in a function."""
    chains = references(function("def f(a):\n" + textwrap.indent(body, "    "))).chains
    return {(reference.root, reference.dotted) for reference in chains}


CASES = {
    "global": ("return g", {(GLOBAL, "g")}),
    "attributes": ("return g.a.b", {(GLOBAL, "g.a.b")}),
    "method": ("return g.a.b(1)", {(GLOBAL, "g.a.b")}),
    "attribute of a result": ("return g(1).a", {(GLOBAL, "g")}),
    "parameter": ("return a.b.c", set()),
    "arguments": ("return g(h, k.l)", {(GLOBAL, "g"), (GLOBAL, "h"), (GLOBAL, "k.l")}),
    "import": ("import m\nreturn m.x", {(TOUCH, "m"), (IMPORT, "m.x")}),
    "import as": ("import m as n\nreturn n.x.y", {(TOUCH, "m"), (IMPORT, "m.x.y")}),
    "import of a submodule": ("import m.n\nreturn m.n.x", {(TOUCH, "m.n"), (IMPORT, "m.n.x")}),
    "import of a submodule as": ("import m.n.o as p\nreturn p.x", {(TOUCH, "m.n.o"), (IMPORT, "m.n.o.x")}),
    "import from": ("from m import x\nreturn x.y", {(TOUCH, "m.x"), (IMPORT, "m.x.y")}),
    "import several": (
        "from m import x as u, y as v\nreturn u, v.w",
        {(TOUCH, "m.x.y"), (IMPORT, "m.x"), (IMPORT, "m.y.w")},
    ),
    "import unused": ("import m\nreturn 1", {(TOUCH, "m")}),
    "import in a branch": (
        "if a:\n    import m\n    return m.x\nreturn g",
        {(TOUCH, "m"), (IMPORT, "m.x"), (GLOBAL, "g")},
    ),
    "import used in a lambda": ("import m\nreturn lambda: m.x", {(TOUCH, "m"), (IMPORT, "m.x")}),
    "import used in a comprehension": ("import m\nreturn [m.x for _ in a]", {(TOUCH, "m"), (IMPORT, "m.x")}),
    "getattr": ("return getattr(g, 'b')", {(GLOBAL, "getattr"), (GLOBAL, "g.b")}),
    "getattr with a default": ("return getattr(g.b, 'c', 1)", {(GLOBAL, "getattr"), (GLOBAL, "g.b.c")}),
    "getattr of a computed name": ("return getattr(g, a)", {(GLOBAL, "getattr"), (GLOBAL, "g.*")}),
    "getattr of an import": ("import m\nreturn getattr(m, 'x')", {(GLOBAL, "getattr"), (TOUCH, "m"), (IMPORT, "m.x")}),
    "getattr of a name put together": ("return getattr(g, 'b' + a)", {(GLOBAL, "getattr"), (GLOBAL, "g.*")}),
    "getattr with another default": (
        "return getattr(g, 'b', h.c)",
        {(GLOBAL, "getattr"), (GLOBAL, "g.b"), (GLOBAL, "h.c")},
    ),
    "getattr of a parameter": ("return getattr(a, g)", {(GLOBAL, "getattr"), (GLOBAL, "g")}),
    "nested function": ("def h():\n    return g.a\nreturn h", {(GLOBAL, "g.a")}),
    "class body": ("class A:\n    x = g\nreturn A", {(NAME, "__name__"), (NAME, "g")}),
    "global import": ("global m\nimport m\nreturn m.x", {(TOUCH, "m"), (IMPORT, "m.x")}),
}


class TestChains:
    """Chains of names are read off the bytecode."""

    @pytest.mark.parametrize("name", CASES)
    def test_chain(self, name: str) -> None:
        """Each form of reference is found with its attributes."""
        body, expected = CASES[name]
        assert found(body) == expected

    def test_cell(self) -> None:
        """A variable of an enclosing function is a cell."""
        outer = function("def f(k):\n    def g():\n        return k.x\n    return g")
        inner = next(item for item in outer.co_consts if isinstance(item, CodeType))
        assert [(chain.root, chain.dotted) for chain in references(inner).chains] == [(CELL, "k.x")]

    def test_relative(self) -> None:
        """A relative import keeps its level."""
        chains = references(function("def f():\n    from ..m import x\n    return x")).chains
        assert {(chain.name, chain.level) for chain in chains} == {("m", 2)}

    def test_line(self) -> None:
        """A reference knows its line."""
        chains = references(function("def f():\n    a()\n\n    return b.c()")).chains
        assert _lines(chains) == {"a": 2, "b.c": 4}

    def test_mentions(self) -> None:
        """Code that reads docstrings is marked; a body that stores its own is not."""
        assert references(function("def f(a):\n    return a.__doc__")).mentions == {"__doc__"}
        assert not references(
            function("def f():\n    class A:\n        'Say.'\n        x: int = 1\n    return A")
        ).mentions


def _lines(chains: list[Reference]) -> dict[str, int | None]:
    return {chain.dotted: chain.line for chain in chains}
