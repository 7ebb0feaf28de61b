"""kcl: its public names, each imported at its first use."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest
from harness import ROOT

import kcl

PACKAGE = ROOT / "kcl"


def modules():
    """Return path and dotted name below kcl of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        yield path, name


class TestPublicNames:
    def test_exported(self):
        """Every public name exists, has a home in the package, and is listed once."""
        assert sorted(set(kcl.__all__)) == sorted(kcl.__all__)
        assert set(kcl.__all__) == set(kcl._HOMES)
        assert set(kcl.__all__) <= set(dir(kcl))
        for name in kcl.__all__:
            assert getattr(kcl, name) is not None

    def test_unknown_name(self):
        """An unknown name is an AttributeError that says which."""
        with pytest.raises(AttributeError, match="kernels"):
            _ = kcl.kernels

    @pytest.mark.parametrize("name", kcl.__all__)
    def test_documented(self, name):
        """Each says in its own docstring what it is; so do its public methods."""
        value = getattr(kcl, name)
        assert inspect.getdoc(value)
        if inspect.isclass(value):
            assert value.__doc__
            for attribute, member in vars(value).items():
                if not attribute.startswith("_") and inspect.isfunction(member):
                    assert inspect.getdoc(member), f"{name}.{attribute}"

    def test_type_stub(self):
        """What a type checker sees of the lazy names is what there is."""
        tree = ast.parse((PACKAGE / "__init__.py").read_text())
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        seen = {
            alias.name
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert seen | {"option"} == set(kcl.__all__)  # a module by another name

    def test_modules_are_documented(self):
        """Every module says in its first line what it is."""
        for path, name in modules():
            assert ast.get_docstring(ast.parse(path.read_text())), name

    def test_typed(self):
        """The package ships the mark of a typed one."""
        assert (PACKAGE / "py.typed").exists()


class TestInstallation:
    def test_checkout_beside_the_program(self, child):
        """A program below which a checkout lies in a folder named kcl gets the package, also as an editable install.

        Where this fails after a change of setup.py, `make .venv/.dev` installs kcl anew.
        """
        (child.directory / "kcl" / "kcl").mkdir(parents=True)
        (child.directory / "program.py").write_text("import kcl\nprint(kcl.kernel.__name__)\n")
        environment = {
            name: value for name, value in child.environment().items() if name != "PYTHONPATH"
        }
        for command in (["program.py"], ["-m", "kcl", "run", "program.py"]):
            done = subprocess.run(
                [sys.executable, *command],
                cwd=child.directory,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert done.stdout == "kernel\n", done.stderr
