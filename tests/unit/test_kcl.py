"""kcl: its public names, each imported at its first use."""

import ast
import inspect
import sys

import house
import pytest
from harness import run_command

import kcl


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
        tree = ast.parse((house.PACKAGE / "__init__.py").read_text())
        block, _hidden = [node for node in tree.body if isinstance(node, ast.If)]
        seen = {
            alias.name
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert seen == set(kcl.__all__)

    def test_modules_are_documented(self):
        """Every module says in its first line what it is."""
        for path, name in house.modules():
            assert ast.get_docstring(house.parsed(path)), name

    def test_typed(self):
        """The package ships the mark of a typed one."""
        assert (house.PACKAGE / "py.typed").exists()


USER = """
import kcl
import kcl.option
import pyopencl as cl

@kcl.kernel
def scaled(block: int = 8) -> kcl.Source:
    raise NotImplementedError

@kcl.kernel(space=kcl.space(block=[1, 2]))
def tuned(block: int = 8) -> kcl.Source:
    raise NotImplementedError

class Solver:
    @kcl.kernel
    def scaled(self, block: int = 8) -> kcl.Source:
        raise NotImplementedError

def right(queue: cl.CommandQueue) -> None:
    kernel: kcl.Kernel = scaled(block=3)
    kernel(queue, x=1, wait_for=None)
    Solver().scaled(block=3).prepare(queue)
    tuned()(queue, x=1)
    print(tuned().tune(queue, level=2).seconds)
    kcl.option.cache_dir("/tmp")
    kcl.install()

def wrong(queue: cl.CommandQueue) -> None:
    kcl.instal()
    scaled(block=3).prepair(None)
    scaled.nonsense()
    kcl.option.cache_dirr("x")
    scaled(block=3)(x=1)
    tuned()(x=1)
    tuned().tunne(queue)
    tuned().tune(queue).second
    scaled(blok=3)
    Solver().scaled(blok=3)
    Solver().scaled().prepair(queue)
"""


def test_checkers_find_typos(tmp_path):
    """A type checker finds each misspelt name, and a call without a queue; it knows `tune`, and recipes in classes."""
    path = tmp_path / "user.py"
    path.write_text(USER)
    checker = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    done = run_command([*checker, "--cache-dir", str(tmp_path / "cache"), "user.py"], cwd=tmp_path)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    wrong = USER.splitlines().index("def wrong(queue: cl.CommandQueue) -> None:") + 1
    assert found == set(range(wrong + 1, len(USER.splitlines()) + 1)), done.stdout


def test_option_by_its_name(child):
    """`import kcl.option` and `from kcl.option import ...` give the module that `kcl.option` is."""
    said = child.python(
        "-c",
        "import kcl.option\nfrom kcl.option import cache_dir\n"
        "import kcl.base.settings.option as own\nprint(kcl.option is own, cache_dir is own.cache_dir)",
    )
    assert said.stdout == "True True\n", said.stderr


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
            done = run_command([sys.executable, *command], cwd=child.directory, env=environment)
            assert done.stdout == "kernel\n", done.stderr
