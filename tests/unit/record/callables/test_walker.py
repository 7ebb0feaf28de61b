"""kcl.record.callables.walker: what a callable and a pure recipe count by, and which callables are refused."""

from __future__ import annotations

import decimal
import enum
import functools
import importlib
import itertools
import logging
import math
import os
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from reaching import Project

import kcl
from kcl.errors import UnknownInput
from kcl.record.callables.walker import reach, walked
from kcl.record.declarations import Declarations, RecipeCall

face = kcl.lazy("loopy")
LIMIT = 1
TABLE: dict[str, Any] = {"a": [1]}
LOG = logging.getLogger("kcl.tests")
COUNT = itertools.count()


def limit() -> int:
    return LIMIT


def through() -> int:
    return limit() + math.floor(np.float64(2.5))


def table() -> object:
    return TABLE


def own_import() -> object:
    from fractions import Fraction

    return Fraction(1, 2)


def of_face() -> object:
    return face.GlobalArg("x")


class Kind(enum.Enum):
    A = 1

    def value_of(self) -> int:
        return LIMIT


def digest(value: Any) -> str:
    return walked(value).digest


@pytest.mark.parametrize(
    "function", [limit, through, Kind.A.value_of, functools.partial(limit), [limit], {limit}]
)
def test_globals(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A global counts by its value, through every function on the way."""
    before = digest(function)
    assert digest(function) == before
    monkeypatch.setitem(globals(), "LIMIT", 2)
    assert digest(function) != before


def test_change_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that changes in place counts as it is."""
    before = digest(table)
    monkeypatch.setitem(TABLE, "a", [2])
    assert digest(table) != before


def test_other_names_in_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A global that the code does not name does not count."""
    before = digest(limit)
    monkeypatch.setitem(globals(), "TABLE", 0)
    assert digest(limit) == before


def test_replaced_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of the user in a library's place counts by its code."""
    before = digest(through)
    monkeypatch.setattr(math, "floor", lambda x: x)
    assert digest(through) != before


def test_state_of_numpy() -> None:
    """How numpy prints and treats errors is a part of each callable's text, and of no other value's."""
    before, plain = digest(limit), digest([1])
    with np.printoptions(precision=3):
        assert digest(limit) != before
        assert digest([1]) == plain
    with np.errstate(divide="raise"):
        assert digest(limit) != before
    assert digest(limit) == before


def test_face_of_loopy() -> None:
    """The face of loopy counts by the name of what it stands for, and loopy is not imported for it."""
    assert any(part.value == "loopy.GlobalArg" for part in walked(of_face).parts)


def test_listed_import() -> None:
    """A body may import a module that is on the list."""
    assert walked(own_import).parts


def reads_environment() -> object:
    return os.environ


def imports_unlisted() -> object:
    import socket

    return socket


def imports_unloaded() -> object:
    import a_module_of_nobody

    return a_module_of_nobody


@functools.cache
def remembers() -> int:
    return LIMIT


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (reads_environment, "os._Environ"),
        (lambda: [np], "numpy as a value"),
        (lambda: open, "open"),
        (imports_unlisted, "socket"),
        (imports_unloaded, "a_module_of_nobody"),
        (lambda: limit.__globals__, "__globals__"),
        (lambda: LOG.level, "logging.Logger"),
        (lambda: next(COUNT), "itertools.count|iterator"),
        (lambda: [remembers()], "functools.cache of remembers"),
        (decimal.getcontext, "decimal.getcontext"),
    ],
)
def test_refused(function: Any, name: str) -> None:
    """A callable that reads something else is refused: the reason has the name, the function, its place and a cure."""
    with pytest.raises(UnknownInput, match=name) as raised:
        walked(function)
    if function is reads_environment:
        line = function.__code__.co_firstlineno
        assert str(raised.value).startswith(f"reads_environment (test_walker.py:{line}): ")
        assert "__kcl_key__" in str(raised.value)


def test_installed_packages(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of an installed package is walked as one of the user's is; in a lenient walk it counts by its name."""
    site = tmp_path / "site-packages"
    (site / "packed-1.dist-info").mkdir(parents=True)
    (site / "packed.py").write_text("LEVEL = 1\ndef level():\n    return LEVEL\n")
    (site / "packed-1.dist-info" / "RECORD").write_text("packed.py,sha256=1,1\n")
    monkeypatch.syspath_prepend(site)
    module: types.ModuleType = importlib.import_module("packed")
    try:
        before, lenient = digest(module.level), walked(module.level, lenient=True)
        module.LEVEL = 2  # type: ignore[attr-defined]
        assert digest(module.level) != before
        assert walked(module.level, lenient=True) == lenient
        assert [part.name for part in lenient.parts] == ["distribution packed"]
    finally:
        del sys.modules["packed"]


NEAR = """
import os
LEVEL = 1
def recipe(x=1):
    import loopy as lp
    from far import value
    return helper() + value() + int(os.environ.get("A", "1"))
def helper():
    return LEVEL
"""
BUILD = "def build():\n    import far\n    return far\n"


@pytest.fixture
def project(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """Return the folder of a recipe in near.py, which imports the package `far` in its body."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "near.py").write_text(NEAR)
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "__init__.py").write_text(
        "from .farther import N\ndef value():\n    return N\n"
    )
    (tmp_path / "far" / "farther.py").write_text("N = 1\n")
    yield tmp_path
    for name in ("near", "far", "far.farther"):
        sys.modules.pop(name, None)


def key(version: str = "1", depends: tuple[Any, ...] = (), **arguments: Any) -> list[Any]:
    """Return the parts of the key of the recipe in near.py."""
    function = importlib.import_module("near").recipe
    return reach(
        RecipeCall("recipe", function, arguments, Declarations(depends, version, pure=True))
    )[0]


@pytest.mark.usefixtures("project")
class TestReach:
    """Version, parameters and the names in the code decide the key."""

    def test_version_and_parameters(self) -> None:
        """The version counts, each parameter, and each value that the recipe depends on."""
        keys = [key(), key("2"), key(x=1), key(x=1.0), key(depends=(1,)), key(depends=(2,))]
        assert len({*map(tuple, keys)}) == len(keys)
        assert key() == keys[0]

    def test_code(self, project: pathlib.Path) -> None:
        """Reached code counts, with the globals that it names; comments and other functions do not."""
        before = key()
        module = importlib.import_module("near")
        module.LEVEL = 2  # type: ignore[attr-defined]
        assert key() != before
        del sys.modules["near"]
        (project / "near.py").write_text("# a comment\n" + NEAR + "def other():\n    return 3\n")
        assert key() == before

    def test_module_that_the_body_imports(self, project: pathlib.Path) -> None:
        """It counts by the files of its package, loaded or not, and is not imported for that."""
        before = key()
        assert "far" not in sys.modules
        importlib.import_module("far")
        assert key() == before
        other = Project(
            project / "other",
            {"recipes.py": BUILD, "far/__init__.py": "", "far/farther.py": "N = 1\n"},
        )
        first = other.parts("")
        other.edit("far/farther.py", "N = 1", "N = 2")
        assert other.parts("") != first

    def test_nothing_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A name that is not on the list counts by itself: the promise covers what it reads."""
        before = key()
        monkeypatch.setenv("A", "2")
        assert key() == before

    def test_front_end(self) -> None:
        """The names of the code tell the front end."""
        function = importlib.import_module("near").recipe
        task = RecipeCall("recipe", function, {}, Declarations((), "1", pure=True))
        assert reach(task)[1] == {"loopy"}

    def test_parameter_without_a_text(self) -> None:
        """A parameter must have an exact text."""
        with pytest.raises(UnknownInput, match="__kcl_key__"):
            key(x=sys.stdout)
