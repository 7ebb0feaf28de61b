"""kcl.record.callables.facts: the digest of code, and the names that it reads."""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest

from kcl.errors import UnknownInput
from kcl.record.callables.facts import CELL, GLOBAL, IMPORT, Reference, absolute, facts
from kcl.record.callables.walker import walked


def function(text: str):
    """Return the function `f` of a text."""
    scope: dict = {"np": np, "math": math}
    exec(compile(text, "<a test>", "exec"), scope)
    return scope["f"]


def read(text: str) -> set[tuple[str, str, tuple[str, ...]]]:
    """Return root, name and attributes of the reads of the function `f` of a text."""
    return {(one.root, one.name, one.attributes) for one in facts(function(text).__code__).reads}


class TestReads:
    """The reads of code are its globals, cells and imports, with the attributes behind them."""

    def test_attributes_of_modules(self) -> None:
        """A chain of attributes is one read; a name without attributes is another."""
        found = read("def f(x):\n    return np.linalg.norm(x) + len(np)\n")
        assert found == {
            (GLOBAL, "np", ("linalg", "norm")),
            (GLOBAL, "np", ()),
            (GLOBAL, "len", ()),
        }

    def test_inner_code(self) -> None:
        """Code inside counts with the code around it: functions, classes and comprehensions."""
        text = "def f(x):\n    class A:\n        def g(self):\n            return [math.sin(i) for i in x]\n    return A\n"
        assert (GLOBAL, "math", ("sin",)) in read(text)

    def test_cells(self) -> None:
        """A variable of the function around is a read of a cell; one of the code's own is none."""
        outer = function(
            "def f(n):\n    def g(m):\n        def h():\n            return n.a + m\n        return h\n    return g\n"
        )
        assert {one[:3] for one in facts(outer(1).__code__).reads} == {(CELL, "n", ("a",))}

    @pytest.mark.parametrize(
        ("statement", "used", "expected"),
        [
            (
                "import numpy as other",
                "other.linalg.norm(x)",
                (IMPORT, "numpy", ("linalg", "norm")),
            ),
            ("import math", "x(math)", (IMPORT, "math", ())),
            ("import math", "[math.sin for one in x], lambda: math", (IMPORT, "math", ())),
            ("import math", "x", (IMPORT, "math", ())),
            ("import os.path", "os.path.join(x)", (IMPORT, "os.path", ())),
            ("from math import sin as s", "s(x)", (IMPORT, "math", ("sin",))),
            ("from math import sin, cos", "[cos(i) for i in x]", (IMPORT, "math", ("cos",))),
            ("from . import near", "near.x", (IMPORT, "", ("near",))),
        ],
    )
    def test_imports(self, statement: str, used: str, expected: tuple) -> None:
        """An import reads the names that it lists, or that code takes of its variable; else the module itself."""
        assert expected in read(f"def f(x):\n    {statement}\n    return {used}\n")

    def test_names(self) -> None:
        """Attributes of any value are listed, and the words of texts, which may name some."""
        found = facts(
            function("def f(x):\n    return x.a.b(), '{0.c}'.format(x), ('d', 'e f')\n").__code__
        )
        assert found.attributes == {"a", "b", "format"}
        assert {"c", "d", "e", "f"} <= found.texts


DIFFERENT = [
    "return 1",
    "return 1.0",
    "return True",
    "return -0.0",
    "return 0.0",
    "return (1, 2)",
    "return (1, 2.0)",
    "return x + 1",
    "return x - 1",
    "return x.a",
    "return x.b",
    "return x in {1, 2}",
    "return x in {1, 3}",
    "try:\n        return x.a\n    except KeyError:\n        return 2",
    "try:\n        return x.a\n    except ValueError:\n        return 2",
    "return lambda: 1",
    "return lambda: 2",
]


class TestDigest:
    """Code has one digest as long as it does the same."""

    def test_different_code(self) -> None:
        """Another constant, type, name or handler is another digest."""
        digests = [
            facts(function(f"def f(x):\n    {body}\n").__code__).digest for body in DIFFERENT
        ]
        assert len({*digests}) == len(DIFFERENT)

    @pytest.mark.parametrize(
        "other", ["\n\n\ndef f(x):\n    'Two.'\n    # a comment\n    return x*2\n"]
    )
    def test_same_code(self, other: str) -> None:
        """Comments, white space, the line and the text of the docstring do not count."""
        assert (
            facts(function("def f(x):\n    'One.'\n    return x * 2\n").__code__).digest
            == facts(function(other).__code__).digest
        )

    def test_same_in_every_process(self) -> None:
        """Sets among the constants have an order that no hash seed decides."""
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]); from kcl.record.callables.facts import facts\n"
            "print(facts((lambda x: x in {'a', 'b', 'c', ('d', 1)}).__code__).digest)"
        )
        seen = set()
        for seed in "0", "1", "2":
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            command = [sys.executable, "-c", program, os.getcwd()]
            seen.add(
                subprocess.run(command, env=environment, capture_output=True, check=True).stdout
            )
        assert len(seen) == 1


TEXT = """
import numpy as np
from . import near
def through():
    return near.VALUE + near.np.float64(1)
def inside():
    from .near import VALUE
    return VALUE
def options():
    return near.np.get_printoptions()
def late():
    from . import far
    return far.VALUE
def missing():
    return near.no_such_name
def plain():
    import math, numpy as other
    return other.sin(math.pi)
def value():
    import numpy
    return [numpy]
"""


@pytest.fixture
def package(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """Return a module of a package with functions that read its neighbour."""
    folder = tmp_path / "named_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "near.py").write_text("import numpy as np\nVALUE = 1\n")
    (folder / "far.py").write_text("VALUE = 1\n")
    (folder / "main.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("named_package.main")
    for name in [name for name in sys.modules if name.startswith("named_package")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["through", "inside"])
def test_value_in_a_module(package: types.ModuleType, name: str) -> None:
    """A value that stands in another module counts, named outside or in the body."""
    function = getattr(package, name)
    before = walked(function).digest
    assert walked(function).digest == before
    package.near.VALUE = 2
    assert walked(function).digest != before


def test_library_through_a_module(package: types.ModuleType) -> None:
    """A module of a library in a module of the user is judged by what is taken of it."""
    with pytest.raises(UnknownInput, match=r"numpy\.get_printoptions"):
        walked(package.options)


def test_import_of_a_module(package: types.ModuleType) -> None:
    """A module that a body imports is judged by what is taken of it, and is no value."""
    assert walked(package.plain).digest
    with pytest.raises(UnknownInput, match="imports numpy in its body"):
        walked(package.value)


def test_module_that_is_not_imported(package: types.ModuleType) -> None:
    """A body that imports a module of the user which nobody has imported is refused: it would run code."""
    with pytest.raises(UnknownInput, match=r"import it at the head|does not hold now"):
        walked(package.late)


def test_missing_name(package: types.ModuleType) -> None:
    """A name that a module does not hold is refused: a hook of the module may give it."""
    with pytest.raises(UnknownInput, match=r"no_such_name"):
        walked(package.missing)


def test_own_builtins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that a program put into builtins counts by its value."""
    import builtins

    monkeypatch.setattr(builtins, "NAMED_BY_NOBODY", 1, raising=False)
    function = eval("lambda: NAMED_BY_NOBODY")
    before = walked(function).digest
    monkeypatch.setattr(builtins, "NAMED_BY_NOBODY", 2)
    assert walked(function).digest != before


@pytest.mark.parametrize(
    ("name", "level", "scope", "expected"),
    [
        ("a.b", 0, {}, "a.b"),
        ("b", 1, {"__package__": "a"}, "a.b"),
        ("", 1, {"__package__": "a"}, "a"),
        ("c", 2, {"__package__": "a.b"}, "a.c"),
        ("b", 1, {"__name__": "a", "__path__": []}, "a.b"),
        ("b", 1, {"__name__": "a.c"}, "a.b"),
    ],
)
def test_relative_imports(name, level, scope, expected) -> None:
    """A relative import is seen from the package of the function."""
    assert absolute(Reference("import", name, (), level), scope) == expected


def test_numpy_by_another_name() -> None:
    """It does not matter under which name a module of a library stands."""
    scope = {"other": np}
    exec("def f(x): return other.sin(x)", scope)
    assert walked(scope["f"]).parts
