"""kcl.record.callables.code: the digest of a code object."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from types import CodeType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl.record.callables.code import digest

SOURCES = ("textwrap", "shlex", "heapq", "bisect", "contextlib", "functools", "dataclasses")


def function(source: str) -> CodeType:
    """Return the code of the first function in ``source``."""
    module = compile(textwrap.dedent(source), "<test>", "exec", dont_inherit=True)
    return next(item for item in module.co_consts if isinstance(item, CodeType))


def functions(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all that are nested in it."""
    yield code
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from functions(item)


def scattered(source: str) -> ast.Module:
    """Parse ``source`` and put every node on a line of its own."""
    tree = ast.parse(source)
    for line, node in enumerate(_in_order(tree), 1):
        if isinstance(node, (ast.expr, ast.stmt, ast.excepthandler, ast.arg, ast.keyword, ast.alias)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return tree


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def exploded(source: str) -> str:
    """Break the line before every token that stands in brackets."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    pieces, depth, text, last = [], 0, 0, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        text += (name == "FSTRING_START") - (name == "FSTRING_END")
        pieces.append(source[last:begin])
        if depth and not text and name in ("NAME", "OP", "NUMBER", "STRING"):
            pieces.append("\n")
        pieces.append(source[begin:end])
        depth += (token.string in tuple("([{")) - (token.string in tuple(")]}")) if name == "OP" else 0
        last = end
    return "".join(pieces)


LAYOUTS = {
    "comments and blank lines": ("def f(a):\n    return a + 1", "def f(a):\n\n    # why\n    return a + 1  # what\n"),
    "docstring": ("def f(a):\n    return a, None, 'x'", "def f(a):\n    'Say.'\n    return a, None, 'x'"),
    "another docstring": ("def f(a):\n    'Say.'\n    return a", "def f(a):\n    'Tell.'\n    return a"),
    "annotations": (
        "def f(a, b=1):\n    c = a\n    return c",
        "def f(a: int, b: str = 1) -> None:\n    c: int = a\n    return c",
    ),
    "position": ("def f(a): return a", "\n\n\n\ndef f(a):\n    return a"),
    "parentheses": (
        "def f(a, b): return a and b or 3",
        "def f(a, b):\n    return (\n        (a\n         and b)\n        or 3\n    )",
    ),
    "with": (
        "def f(a, b):\n    with a(1) as x, b(2) as y: return x(y)",
        "def f(a, b):\n    with a(\n        1\n    ) as x, b(\n        2\n    ) as y:\n"
        "        return x(\n            y\n        )",
    ),
    "try": (
        "def f(a):\n    try: return a()\n    except (KeyError, ValueError) as e: return e\n    finally: a.close()",
        "def f(a):\n    try:\n        return (\n            a()\n        )\n"
        "    except (\n        KeyError,\n        ValueError,\n"
        "    ) as e:\n        return e\n    finally:\n        a.close(\n        )",
    ),
    "comprehension": (
        "def f(a): return [g(x, y) for x in a for y in x if y]",
        "def f(a):\n    return [\n        g(\n            x,\n            y,\n        )\n"
        "        for x in a\n        for y in x\n        if y\n    ]",
    ),
    "loop": (
        "def f(a):\n    for x in a:\n        if x: continue\n        else: break\n    return x",
        "def f(a):\n    for x in (\n        a\n    ):\n"
        "        if (\n            x\n        ):\n            continue\n\n        else:\n"
        "            break\n    return x",
    ),
    "exchange": (
        "def f(a, b):\n    x, y = a, b\n    return x, y",
        "def f(a, b):\n    (\n        x,\n        y,\n    ) = a, b\n    return x, y",
    ),
    "unused value": (
        "def f(a):\n    x, _, _ = a\n    return x",
        "def f(a):\n    (\n        x,\n        _,\n        _,\n    ) = a\n    return x",
    ),
    "nested": (
        "def f(a):\n    class B:\n        def m(self): return a\n    return B, lambda x: x",
        "def f(a):\n\n    class B:\n        'Say.'\n\n"
        "        def m(self):\n            'Tell.'\n            return a\n\n"
        "    return B, lambda x: (\n        x\n    )",
    ),
    "pass": (
        "def f(a):\n    if a: return 1\n    return 2",
        "def f(a):\n    pass\n    if a:\n        pass\n        return 1\n    return 2",
    ),
}

CHANGES = {
    "constant": ("def f(a): return a + 1", "def f(a): return a + 2"),
    "type of a constant": ("def f(): return g(1)", "def f(): return g(True)"),
    "float for int": ("def f(): return g(1)", "def f(): return g(1.0)"),
    "sign of zero": ("def f(): return g(0.0)", "def f(): return g(-0.0)"),
    "complex": ("def f(): return g(1j)", "def f(): return g(complex)"),
    "string": ("def f(): return 'a b'", "def f(): return 'a  b'"),
    "bytes for string": ("def f(): return g('a')", "def f(): return g(b'a')"),
    "nested tuple": ("def f(): return g((1, (2, 3)))", "def f(): return g((1, (2, 3.0)))"),
    "set": ("def f(a): return a in {1, 2}", "def f(a): return a in {1, 3}"),
    "operator": ("def f(a, b): return a + b", "def f(a, b): return a - b"),
    "comparison": ("def f(a, b): return a < b", "def f(a, b): return a <= b"),
    "order of operands": ("def f(a, b): return a - b", "def f(a, b): return b - a"),
    "condition": ("def f(a):\n    if a: return 1\n    return 2", "def f(a):\n    if not a: return 1\n    return 2"),
    "none": ("def f(a): return 1 if a is None else 2", "def f(a): return 1 if a is not None else 2"),
    "and for or": ("def f(a, b): return a and b", "def f(a, b): return a or b"),
    "global name": ("def f(): return g", "def f(): return h"),
    "attribute": ("def f(a): return a.x", "def f(a): return a.y"),
    "method": ("def f(a): return a.x()", "def f(a): return a.x"),
    "keyword": ("def f(a): return a(x=1)", "def f(a): return a(y=1)"),
    "statement": ("def f(a):\n    a()\n    a.b()", "def f(a):\n    a.b()\n    a()"),
    "parameter": ("def f(a): return 1", "def f(b): return 1"),
    "kind of parameter": ("def f(a, b): return a", "def f(a, *, b): return a"),
    "star": ("def f(a): return a", "def f(*a): return a"),
    "handler": (
        "def f(a):\n    try: a()\n    except KeyError: return 1",
        "def f(a):\n    try: a()\n    except ValueError: return 1",
    ),
    "reach of a handler": (
        "def f(a):\n    try: a()\n    except KeyError: return 1\n    a.b()",
        "def f(a):\n    try:\n        a()\n        a.b()\n    except KeyError: return 1",
    ),
    "finally": ("def f(a):\n    try: a()\n    finally: a.b()", "def f(a):\n    a()\n    a.b()"),
    "loop": ("def f(a):\n    while a: a()", "def f(a):\n    if a: a()"),
    "break for continue": (
        "def f(a):\n    for x in a:\n        if x: break\n        x()",
        "def f(a):\n    for x in a:\n        if x: continue\n        x()",
    ),
    "nested code": ("def f(): return lambda x: x + 1", "def f(): return lambda x: x + 2"),
    "comprehension": ("def f(a): return [x for x in a]", "def f(a): return {x for x in a}"),
    "generator": ("def f(a): yield a", "def f(a): return a"),
    "closure": ("def f(a):\n    def g(): return a\n    return g", "def f(a):\n    def g(): return b\n    return g"),
    "swap": ("def f(a, b):\n    x, y = a, b\n    return x, y", "def f(a, b):\n    y, x = a, b\n    return x, y"),
    "assertion": ("def f(a):\n    assert a\n    return a", "def f(a):\n    return a"),
    "f-string": ("def f(a): return f'{a}'", "def f(a): return f'{a!r}'"),
    "slice": ("def f(a): return a[1:2]", "def f(a): return a[1:3]"),
    "import": ("def f():\n    import a\n    return a", "def f():\n    import b as a\n    return a"),
    "level of an import": (
        "def f():\n    from . import a\n    return a",
        "def f():\n    from .. import a\n    return a",
    ),
}


class TestLayout:
    """What does not change what a function does does not change its digest."""

    @pytest.mark.parametrize("name", LAYOUTS)
    def test_layout(self, name: str) -> None:
        """One function in two layouts has one digest."""
        before, after = LAYOUTS[name]
        assert digest(function(before)) == digest(function(after))

    @pytest.mark.parametrize("name", SOURCES)
    def test_every_node_on_a_line_of_its_own(self, name: str) -> None:
        """Real code keeps its digest however its parts are spread over lines."""
        source = _source(name)
        before = compile(source, "<before>", "exec", dont_inherit=True)
        after = compile(scattered(source), "<after>", "exec", dont_inherit=True)
        _compare(before, after)

    @pytest.mark.parametrize("name", SOURCES)
    def test_every_token_on_a_line_of_its_own(self, name: str) -> None:
        """Real code keeps its digest when all its brackets are broken into lines."""
        source = _source(name)
        changed = exploded(source)
        assert ast.dump(ast.parse(source)) == ast.dump(ast.parse(changed))
        _compare(*(compile(text, "<test>", "exec", dont_inherit=True) for text in (source, changed)))

    def test_black(self) -> None:
        """Code that black reformats keeps its digest."""
        black = pytest.importorskip("black")
        for source in (_source("textwrap"), _source("shlex")):
            for length in (20, 500):
                changed = black.format_str(source, mode=black.Mode(line_length=length, magic_trailing_comma=False))
                _compare(*(compile(text, "<test>", "exec", dont_inherit=True) for text in (source, changed)))

    def test_import_elsewhere(self) -> None:
        """An import of its module changes how the compiler calls a method, and not what the method does."""
        plain = "def f(a):\n    return a.run(1, key=2)"
        assert digest(function(plain)) == digest(function("import a\n" + plain))

    def test_execution(self) -> None:
        """A function that has run, and that the interpreter has specialised, keeps its digest."""
        code = function("def f(a):\n    s = 0\n    for x in a:\n        s += x * 2\n    return s")
        names: dict[str, object] = {}
        exec("def f(a):\n    s = 0\n    for x in a:\n        s += x * 2\n    return s", names)
        run = names["f"]
        for _ in range(1000):
            run(range(9))  # type: ignore[operator]
        assert digest(run.__code__) == digest(code)  # type: ignore[attr-defined]

    def test_hash_seed(self) -> None:
        """Sets among the constants do not depend on the hash seed."""
        program = (
            "import sys; sys.path[:0] = sys.argv[1:]; from kcl.record.callables.code import digest\n"
            "def f(a): return a in {'x', 'y', 'z', 'w', b'u', 1, (2, 'v')}\n"
            "print(digest(f.__code__))"
        )
        seen = set()
        for seed in "0", "1", "2", "random":
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            command = [sys.executable, "-c", program, os.getcwd()]
            seen.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
        assert len(seen) == 1


class TestChange:
    """What changes what a function does changes its digest."""

    @pytest.mark.parametrize("name", CHANGES)
    def test_change(self, name: str) -> None:
        """Two functions that differ in one thing have two digests."""
        before, after = CHANGES[name]
        assert digest(function(before)) != digest(function(after))

    @pytest.mark.filterwarnings("ignore::SyntaxWarning")
    @pytest.mark.slow_cases(3)
    @pytest.mark.parametrize("name", SOURCES[2:])  # the first two hold ``if 0`` and ``while 1``
    def test_every_constant_and_operator(self, name: str) -> None:
        """One change anywhere in real code is seen."""
        source = _source(name)
        original = compile(source, "<test>", "exec", dont_inherit=True)
        before = digest(original)
        nodes = [
            node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Constant, ast.BinOp, ast.Compare))
        ]
        for number in range(0, len(nodes), max(1, len(nodes) // 40)):
            tree = ast.parse(source)
            documentation = {id(item.value) for item in ast.walk(tree) if isinstance(item, ast.Expr)}
            tell = [node for node in ast.walk(tree) if isinstance(node, (ast.Constant, ast.BinOp, ast.Compare))][number]
            if id(tell) in documentation or not _mutate(tell):
                continue
            try:
                after = compile(tree, "<test>", "exec", dont_inherit=True)
            except (ValueError, TypeError):  # a constant in a place where the compiler wants another
                continue
            if after == original:  # dead code
                continue
            assert digest(after) != before, ast.dump(tell)

    def test_optimisation(self) -> None:
        """Assertions that are compiled away count as what they are then: nothing."""
        source = "def f(a):\n    assert a\n    return a"
        plain, bare = (
            compile(text, "<test>", "exec", optimize=level, dont_inherit=True)
            for text, level in ((source, 1), ("def f(a):\n    return a", 0))
        )
        assert digest(plain) == digest(bare)


class TestGenerated:
    """Expressions that hypothesis makes up."""

    names = st.sampled_from(["a", "b", "c", "d"])
    leaves = st.one_of(names, st.integers(-3, 3).map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr))

    @staticmethod
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.tuples(inner, st.sampled_from(["+", "-", "*", "and", "or", "<", "==", "is not"]), inner)
        choice = st.tuples(inner, inner, inner).map(lambda item: f"({item[0]} if {item[1]} else {item[2]})")
        return st.one_of(
            pair.map(lambda item: f"({item[0]} {item[1]} {item[2]})"),
            choice,
            inner.map(lambda item: f"(not {item})"),
            inner.map(lambda item: f"[x for x in a if {item}]"),
            inner.map(lambda item: f"(lambda a: {item})"),
        )

    @pytest.mark.filterwarnings("ignore::SyntaxWarning")
    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_layout(self, data: st.DataObject) -> None:
        """No way of breaking an expression into lines changes its digest."""
        text = data.draw(st.recursive(self.leaves, self.grown, max_leaves=12))
        source = f"def f(a, b, c, d):\n    x, y = {text}, {text}\n    if x: return y\n    return x"
        before = compile(source, "<before>", "exec", dont_inherit=True)
        after = compile(scattered(source), "<after>", "exec", dont_inherit=True)
        assert digest(before) == digest(after)


def _source(name: str) -> str:
    with open(__import__(name).__file__, encoding="utf-8") as stream:
        return stream.read()


def _compare(before: CodeType, after: CodeType) -> None:
    for one, other in zip(functions(before), functions(after), strict=True):
        assert digest(one) == digest(other), one.co_name


def _mutate(node: ast.AST) -> bool:
    """Change one node; tell whether that was possible."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        node.value = node.value + 1
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        node.value = node.value + "x"
    elif isinstance(node, ast.BinOp):
        node.op = ast.Mult() if not isinstance(node.op, ast.Mult) else ast.Add()
    elif isinstance(node, ast.Compare):
        node.ops[0] = ast.Is() if not isinstance(node.ops[0], ast.Is) else ast.IsNot()
    else:
        return False
    return True


def test_standard_library_alone() -> None:
    """The digest needs nothing that is installed."""
    program = f"import sys; sys.path[:0] = [{os.getcwd()!r}]; import kcl.record.callables.code; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {"numpy", "pyopencl", "loopy", "dis", "inspect"} & set(modules.split())
