"""kcl.frontends.loopy.callables.pure: the key of a pure recipe, found without running it."""

from __future__ import annotations

import functools
import sys
from typing import Any

import pytest
from reaching import Project

import kcl
from kcl.errors import UnknownInput
from kcl.frontends.loopy.callables import pure
from kcl.generate.declarations import Declarations, RecipeCall

NEAR = """
import os
LEVEL = 1
def build(x=1):
    import loopy as lp
    from far import value
    return LEVEL + value() + int(os.environ.get("A", "1"))
"""
FILES = {
    "recipes.py": NEAR,
    "far/__init__.py": "from .farther import N\ndef value():\n    return N\n",
    "far/farther.py": "N = 1\n",
}


def recipe(x: int = 1) -> Any:
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<4}", f"a[i] = {x}")


def source() -> Any:
    return kcl.Source


def either() -> Any:
    return recipe()


def made(number: int) -> Any:
    def inner() -> int:
        return number

    return inner


def call(function: Any = recipe, version: str = "1", depends: Any = (), **given: Any) -> RecipeCall:
    """Return a pure recipe with its parameters."""
    return RecipeCall("recipe", function, given, Declarations(depends, version, pure=True))


def thing(number: int) -> Any:
    class Thing:
        def number(self) -> int:
            return number

    return Thing()


class TestKey:
    def test_version_and_parameters(self) -> None:
        """The version counts, each parameter, and each value that the recipe depends on."""
        calls = [call(), call(version="2"), call(x=1), call(x=1.0)]
        calls += [call(depends=(1,)), call(depends=(2,))]
        keys = [tuple(pure.key_parts(one)) for one in calls]
        assert len({*keys}) == len(keys)
        assert tuple(pure.key_parts(call())) == keys[0]

    def test_what_a_function_holds(self) -> None:
        """Two recipes of one factory are two keys, and so are two parts of one function."""
        functions = [made(1), made(2), functools.partial(recipe, 1), functools.partial(recipe, 2)]
        parameters = [tuple(pure.key_parts(call(x=function))) for function in functions]
        recipes = [tuple(pure.key_parts(call(function))) for function in functions[:2]]
        assert len({*parameters, *recipes}) == 6
        assert tuple(pure.key_parts(call(made(1)))) == recipes[0]
        things = [tuple(pure.key_parts(call(x=thing(number)))) for number in (1, 2, 1)]
        assert things[0] == things[2] != things[1]

    def test_parameter_without_a_text(self) -> None:
        """A parameter must have an exact text."""
        with pytest.raises(UnknownInput, match=r"recipe \(test_pure.py:\d+\).*__kcl_key__"):
            pure.key_parts(call(x=sys.stdout))

    def test_files(self, tmp_path: Any) -> None:
        """A lone file counts, with the program's modules that it imports; other files and the place do not."""
        project, other = Project(tmp_path / "one", FILES), Project(tmp_path / "other", FILES)
        first = project.parts("")
        assert {"module recipes", "module far"} <= {name for name, _text in first}
        other.write("beside.py", "N = 1\n")
        assert other.parts("") == first
        for name, before in (("recipes.py", "LEVEL = 1"), ("far/farther.py", "N = 1")):
            other.edit(name, before, f"{before} + 1")
            assert other.parts("") != first
            other.edit(name, f"{before} + 1", before)

    def test_an_edit_while_the_process_runs(self, tmp_path: Any) -> None:
        """The code of a file that was changed since the process began is not known."""
        project = Project(tmp_path, FILES)
        action = "open(recipes.__file__, 'a').write('# more')\n"
        with pytest.raises(AssertionError, match="was changed after the process began"):
            project.parts("", action=action)
