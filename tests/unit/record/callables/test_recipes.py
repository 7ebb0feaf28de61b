"""kcl.record.callables.recipes: the parts of the key of a pure recipe."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kcl.errors import UnknownInput
from kcl.record.callables.recipes import reach
from kcl.record.declarations import Declarations, RecipeCall

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


@pytest.fixture
def project(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """Return the folder of a recipe in near.py, which imports far.py in its body, which imports farther.py."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "near.py").write_text(NEAR)
    (tmp_path / "far.py").write_text("from farther import N\ndef value():\n    return N\n")
    (tmp_path / "farther.py").write_text("N = 1\n")
    yield tmp_path
    for name in ("near", "far", "farther"):
        sys.modules.pop(name, None)


def key(version: str = "1", depends: tuple[Any, ...] = (), **arguments: Any) -> tuple[Any, ...]:
    """Return the parts of the key of the recipe in near.py."""
    function = importlib.import_module("near").recipe
    return reach(RecipeCall("recipe", function, arguments, Declarations(depends, version, pure=True))).parts


@pytest.mark.usefixtures("project")
class TestReach:
    """Version, parameters and the names in the code decide the key."""

    def test_version_and_parameters(self) -> None:
        """The version counts, each parameter, and each value that the recipe depends on."""
        keys = [key(), key("2"), key(x=1), key(x=1.0), key(depends=(1,)), key(depends=(2,))]
        assert len({*keys}) == len(keys)
        assert key() == keys[0]

    def test_front_end(self) -> None:
        """The names of the code tell the front end."""
        function = importlib.import_module("near").recipe
        task = RecipeCall("recipe", function, {}, Declarations((), "1", pure=True))
        assert reach(task).front_ends == {"loopy"}

    def test_texts(self) -> None:
        """The source of reached code explains a later miss."""
        function = importlib.import_module("near").recipe
        found = reach(RecipeCall("recipe", function, {}, Declarations((), "1", pure=True)))
        assert found.texts()["code helper"] == "def helper():\n    return LEVEL\n"
        assert found.origins()["code helper"] == ("near", 8)

    def test_parameter_without_a_text(self) -> None:
        """A parameter must have an exact text."""
        with pytest.raises(UnknownInput, match="__kcl_key__"):
            key(x=sys.stdout)
