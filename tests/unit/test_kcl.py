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
        """Every public name exists, has a home in the package, and is listed once; an unknown one is an AttributeError."""
        assert sorted(kcl.__all__) == sorted(kcl._HOMES)
        assert set(kcl.__all__) <= set(dir(kcl))
        assert all(getattr(kcl, name) is not None for name in kcl.__all__)
        with pytest.raises(AttributeError, match="kernels"):
            _ = kcl.kernels

    @pytest.mark.parametrize("name", kcl.__all__)
    def test_documented(self, name):
        """Each says in its own docstring what it is; so do its public methods."""
        value = getattr(kcl, name)
        assert value.__doc__
        for attribute, member in vars(value).items() if inspect.isclass(value) else ():
            assert attribute.startswith("_") or not inspect.isfunction(member) or member.__doc__

    def test_type_stub(self):
        """What a type checker sees of the lazy names is what there is; the package ships the mark of a typed one."""
        tree = ast.parse((house.PACKAGE / "__init__.py").read_text())
        block, _hidden = [node for node in tree.body if isinstance(node, ast.If)]
        imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
        assert {alias.name for node in imports for alias in node.names} == set(kcl.__all__)
        assert (house.PACKAGE / "py.typed").exists()

    def test_every_module_says_in_its_first_line_what_it_is(self):
        for path, name in house.modules():
            assert ast.get_docstring(house.parsed(path)), name


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
    code = """
        import kcl.option
        from kcl.option import cache_dir
        import kcl.base.settings.option as own
        print(kcl.option is own, cache_dir is own.cache_dir)
        """
    assert child.run(code).stdout == "True True\n"


def test_checkout_beside_the_program(child):
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
