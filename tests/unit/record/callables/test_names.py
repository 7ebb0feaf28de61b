"""kcl.record.callables.names: from a name that code reads to the value that counts."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest

from kcl.errors import UnknownInput
from kcl.record.callables.facts import Reference
from kcl.record.callables.names import absolute
from kcl.record.callables.walker import walked

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
