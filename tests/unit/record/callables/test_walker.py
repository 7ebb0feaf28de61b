"""kcl.record.callables.walker: what a callable counts by, and which callables are refused."""

from __future__ import annotations

import decimal
import enum
import functools
import importlib
import itertools
import logging
import math
import os
import sys
import types
from typing import Any

import numpy as np
import pytest

import kcl
from kcl.errors import UnknownInput
from kcl.record.callables.walker import walked

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


@pytest.mark.parametrize("function", [limit, through, Kind.A.value_of, functools.partial(limit), [limit], {limit}])
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
