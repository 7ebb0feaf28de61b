"""kcl.record.callables.chains: from a name in code, through modules, to the value that counts. More: test_walk.py."""

from __future__ import annotations

import importlib
import itertools
import textwrap

import pytest

from kcl.errors import UnknownInput
from kcl.record.callables.reach import reach

_numbers = itertools.count()


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Write a package with a module in it and a recipe, import all, and return the three: package, inner, recipe."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(recipe, package="", inner="VALUE = 3\nUNUSED = 4\n"):
        name = f"chain_{next(_numbers)}"
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(package)
        (tmp_path / name / "inner.py").write_text(inner)
        (tmp_path / name / "recipes.py").write_text(textwrap.dedent(recipe).replace("PACKAGE", name))
        return [importlib.import_module(one) for one in (name, f"{name}.inner", f"{name}.recipes")]

    return write


def parts(recipes):
    """Return the parts of the key of `build` by their names."""
    return dict(reach(recipes.build, {}).parts)


class TestModules:
    @pytest.mark.parametrize(
        ("recipe", "path"),
        [
            ("import PACKAGE.inner\n\n\ndef build():\n    return PACKAGE.inner.VALUE\n", "PACKAGE.inner.VALUE"),
            ("import PACKAGE.inner as i\n\n\ndef build():\n    return i.VALUE\n", "i.VALUE"),
            ("from PACKAGE.inner import VALUE as v\n\n\ndef build():\n    return v\n", "v"),
        ],
    )
    def test_global(self, modules, recipe, path):
        """A chain is named as the code writes it, and holds the value at its end; no other name counts."""
        package, inner, recipes = modules(recipe)
        path = path.replace("PACKAGE", package.__name__)
        before = parts(recipes)
        assert f"global {path} in build" in before
        inner.UNUSED = 5
        assert parts(recipes) == before
        (recipes if path == "v" else inner).__dict__["v" if path == "v" else "VALUE"] = 30
        assert [name for name, value in parts(recipes).items() if value != before[name]] == [f"global {path} in build"]

    @pytest.mark.parametrize("dots", [".inner", "."])
    def test_relative_import(self, modules, dots):
        """An import in the body that is relative leads to the module beside it."""
        statement = "from .inner import VALUE" if dots == ".inner" else "from . import inner"
        value = "VALUE" if dots == ".inner" else "inner.VALUE"
        _package, inner, recipes = modules(f"def build():\n    {statement}\n    return {value}\n")
        before = parts(recipes)
        inner.VALUE = 30
        assert parts(recipes) != before

    def test_missing(self, modules):
        """A name that a module lacks is absent, until somebody sets it."""
        _package, inner, recipes = modules("import PACKAGE.inner as i\n\n\ndef build():\n    return i.LATER\n")
        before = parts(recipes)
        inner.LATER = 1
        now = parts(recipes)
        assert [name for name in now if now[name] != before.get(name)] == ["global i.LATER in build"]

    def test_computed_name(self, modules):
        """A computed name of a module cannot be followed: it is refused, and told what to write."""
        code = "import PACKAGE.inner as i\n\n\ndef build(name='VALUE'):\n    return getattr(i, name)\n"
        with pytest.raises(UnknownInput, match=r"computed; write i\.<name>"):
            parts(modules(code)[2])


class TestNames:
    def test_closure(self, modules):
        """A variable of an enclosing function counts by what it holds now, and one that is empty says so."""
        code = """
            def outer():
                def build():
                    return number
                if False:
                    number = 1
                return build


            build = outer()
        """
        _package, _inner, recipes = modules(code)
        before = parts(recipes)
        name = "closure number in outer.<locals>.build"
        assert before[name] == "<empty>"
        recipes.build.__closure__[0].cell_contents = 2
        assert parts(recipes)[name] not in ("<empty>", "")

    def test_replaced_builtin(self, modules):
        """A name of Python's counts only where the module puts something else in its place."""
        _package, _inner, recipes = modules("def build():\n    return len('a')\n")
        before = parts(recipes)
        assert not [name for name in before if "len" in name]
        recipes.len = 3
        assert "global len in build" in parts(recipes)

    def test_place(self, modules):
        """Code that asks for its module's name has that in its key; its file counts as a place."""
        _package, _inner, recipes = modules("def build():\n    return __name__, __file__\n")
        found = reach(recipes.build, {})
        assert found.placed
        assert dict(found.parts)["global __name__ in build"] == recipes.__name__
