"""kcl.record.callables.modules: modules that a recipe imports inside its body, and what a program does with them."""

from __future__ import annotations

import importlib
import itertools
import pathlib
import sys
import textwrap
import types
import zipfile

import pytest

from kcl.errors import UnknownInput
from kcl.record.callables.reach import reach

_numbers = itertools.count()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write modules below a folder on the path, under a number of this test's own: `{n}` in names and texts."""
    monkeypatch.syspath_prepend(str(tmp_path))
    number = next(_numbers)

    def write(name, text):
        path = tmp_path / f"{name.format(n=number)}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text).replace("{n}", str(number)))
        return number

    return write


def recipe_of(number, statement):
    """Return a recipe whose body imports, from a module of its own."""
    name = f"unloaded_recipe_{number}"
    folder = sys.path[0]
    with open(f"{folder}/{name}.py", "w") as stream:
        stream.write(f"def build():\n    {statement.replace('{n}', str(number))}\n")
    return importlib.import_module(name).build


def parts(recipe):
    """Return the parts of a recipe's key by their names."""
    return dict(reach(recipe, {}).parts)


class TestWhole:
    def test_imported(self, files):
        """The module is imported for the key; it and what it imports are parts, and so are the values of its names."""
        files("low{n}", "VALUE = 3")
        number = files("high{n}", "import low{n}\nVALUE = low{n}.VALUE")
        found = parts(recipe_of(number, "import high{n}; return high{n}.VALUE"))
        assert {f"module high{number}", f"module low{number}"} <= found.keys()
        assert {f"high{number}", f"low{number}"} <= sys.modules.keys()
        assert found[f"import high{number}.VALUE in build"] == "3"

    @pytest.mark.parametrize(
        ("text", "same"),
        [
            ('"""Words."""\nVALUE = 3  # more words', True),
            ("VALUE = 30", False),
            ("VALUE = 3\n\n\ndef unused():\n    return 1", False),
        ],
    )
    def test_source(self, files, text, same):
        """Comments and docstrings count for nothing, any code of the module does."""
        number = files("one{n}", "VALUE = 3")
        recipe = recipe_of(number, "import one{n}; return one{n}.VALUE")
        before = parts(recipe)
        files("one{n}", text)
        del sys.modules[f"one{number}"]
        assert (parts(recipe) == before) is same

    def test_package(self, files):
        """A module in a package counts with the package, which an import runs first."""
        files("pack{n}/__init__", "STARTED = 1")
        number = files("pack{n}/inner", "from . import STARTED\nVALUE = STARTED")
        recipe = recipe_of(number, "from pack{n}.inner import VALUE; return VALUE")
        before = parts(recipe)
        assert {f"module pack{number}", "module inner"} <= before.keys()
        files("pack{n}/__init__", "STARTED = 1\nMORE = 2")
        for name in (f"pack{number}", f"pack{number}.inner"):
            del sys.modules[name]
        now = parts(recipe)
        assert [name for name in now if now[name] != before[name]] == [f"module pack{number}"]

    def test_of_no_source(self, files):
        """A module that does not exist is absent, and is found once it does."""
        number = files("other{n}", "")
        recipe = recipe_of(number, "import gone{n}; return gone{n}.VALUE")
        before = parts(recipe)
        files("gone{n}", "VALUE = 1")
        assert parts(recipe) != before

    @pytest.mark.parametrize("text", ["import os\nVALUE = os.environ['A']", "VALUE = open('file').read()"])
    def test_reading(self, files, text):
        """One that may read something while it is imported is refused by its name, with what to do."""
        number = files("reading{n}", text)
        recipe = recipe_of(number, "import reading{n}; return reading{n}.VALUE")
        with pytest.raises(UnknownInput, match=f"imports reading{number}, which uses .*import it at the top"):
            parts(recipe)

    def test_failing(self, files):
        """One whose import fails is no key: the recipe runs, and raises the error itself."""
        number = files("failing{n}", "1 / 0")
        with pytest.raises(UnknownInput, match=f"the import of failing{number} fails: ZeroDivisionError"):
            parts(recipe_of(number, "import failing{n}; return failing{n}.VALUE"))

    def test_impossible(self, files):
        """One that Python says it cannot import counts by its source: the recipe may catch that."""
        number = files("needing{n}", "import gone_for_good")
        recipe = recipe_of(number, "import needing{n}; return needing{n}.VALUE")
        before = parts(recipe)
        assert before[f"import needing{number} in build"] == "absent"
        files("needing{n}", "import gone_for_better")
        assert parts(recipe) != before

    def test_archived(self, tmp_path, monkeypatch, files):
        """One in an archive on the path counts by its source too."""
        archive, number = tmp_path / "modules.zip", files("beside{n}", "")
        with zipfile.ZipFile(archive, "w") as stream:
            stream.writestr(f"archived_{number}.py", "VALUE = 1")
        recipe = recipe_of(number, "import archived_{n}; return archived_{n}.VALUE")
        monkeypatch.syspath_prepend(str(archive))
        assert len(parts(recipe)[f"module archived_{number}"]) == 64


FILES = {
    "recipe": "def build():\n    import {lazy}\n    return {lazy}.shift(1)\n\n\n"
    "def other():\n    import {lazy}\n    return {lazy}.late()\n\n\n"
    "def whole(name):\n    import {lazy}\n    return getattr({lazy}, name)\n\n\n"
    "def perhaps():\n    try:\n        import {lazy}\n    except ImportError:\n        return 0\n"
    "    return {lazy}.SHIFT\n",
    "lazy": "import {below}\nSHIFT = 2\nNUMBERS = []\n\n\ndef shift(n):\n    return n + SHIFT + {below}.VALUE\n\n\n"
    "def late():\n    import {later}\n    return {later}.VALUE\n",
    "below": "VALUE = 3\nUNUSED = 4\n",
    "later": "VALUE = 5\n",
}


class Modules:
    """The files above under names of their own, on the path of this process."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        number = next(_numbers)
        self.names = {name: f"lazy_{name}_{number}" for name in FILES}
        for name, text in FILES.items():
            self.path(name).write_text(text.format(**self.names))
        self.recipes = importlib.import_module(self.names["recipe"])

    def path(self, name: str) -> pathlib.Path:
        return self.directory / f"{self.names[name]}.py"

    def load(self, name: str) -> types.ModuleType:
        return importlib.import_module(self.names[name])

    def key(self, function: str = "build", **arguments: object) -> tuple[object, ...]:
        return reach(getattr(self.recipes, function), arguments).parts


@pytest.fixture
def modules(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Modules:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Modules(tmp_path)


class TestUnchanged:
    """A module that was imported since holds what its source says."""

    @pytest.mark.parametrize("names", [("lazy",), ("below",), ("below", "lazy", "later")])
    def test_imported_by_the_program(self, names: tuple[str, ...], modules: Modules) -> None:
        """An import between two look-ups changes nothing."""
        before = modules.key(), modules.key("other"), modules.key("whole", name="SHIFT")
        for name in names:
            modules.load(name)
        assert (modules.key(), modules.key("other"), modules.key("whole", name="SHIFT")) == before

    def test_imported_by_the_recipe(self, modules: Modules) -> None:
        """Nor does the recipe that runs, whatever it imports one after the other."""
        before = modules.key(), modules.key("other")
        modules.recipes.build()
        modules.recipes.other()
        assert (modules.key(), modules.key("other")) == before

    def test_other_names(self, modules: Modules) -> None:
        """A change of a name that the recipe does not reach."""
        before = modules.key()
        modules.load("lazy").late = None
        modules.load("below").UNUSED = None
        assert modules.key() == before

    def test_changed_back(self, modules: Modules) -> None:
        """A change that was taken back, a reload, a new import."""
        before = modules.key()
        lazy = modules.load("lazy")
        lazy.SHIFT = 7
        assert modules.key() != before
        importlib.reload(lazy)
        assert modules.key() == before
        del sys.modules[modules.names["lazy"]]
        modules.load("lazy")
        assert modules.key() == before


class TestChanged:
    """What a program changes in such a module counts."""

    @pytest.mark.parametrize(
        ("module", "name", "value"),
        [("lazy", "SHIFT", 8), ("lazy", "shift", lambda n: n), ("below", "VALUE", 9), ("later", "VALUE", 10)],
    )
    def test_changed_between_look_ups(self, module: str, name: str, value: object, modules: Modules) -> None:
        """Changed after a look-up, in a module that nobody had imported before."""
        function = "other" if module == "later" else "build"
        before = modules.key(function)
        setattr(modules.load(module), name, value)
        assert modules.key(function) != before

    def test_changed_before_the_other_look_up(self, modules: Modules) -> None:
        """Changed after the look-up of another recipe that imports the same module."""
        fresh = modules.key("whole", name="late")
        late = modules.key("other")
        modules.load("lazy").late = None
        with pytest.raises(TypeError):
            modules.recipes.other()
        assert modules.key("other") != late
        assert modules.key("whole", name="late") != fresh

    def test_changed_in_place(self, modules: Modules) -> None:
        """A list that is appended to."""
        before = modules.key("whole", name="NUMBERS")
        modules.load("lazy").NUMBERS.append(1)
        assert modules.key("whole", name="NUMBERS") != before

    def test_changed_where_the_lazy_module_takes_it(self, modules: Modules) -> None:
        """A module below that was loaded and changed before any look-up counts by what it holds."""
        below = modules.load("below")
        before = modules.key()
        below.VALUE = 11
        assert modules.key() != before

    def test_after_the_recipe_ran(self, modules: Modules) -> None:
        """Changed after the recipe itself imported it."""
        before = modules.key()
        modules.recipes.build()
        modules.load("lazy").SHIFT = 12
        assert modules.key() != before

    def test_another_module_in_its_place(self, modules: Modules) -> None:
        """A module that was put in its place, and one whose import is blocked."""
        before, perhaps = modules.key(), modules.key("perhaps")
        false = types.ModuleType(modules.names["lazy"])
        false.shift = lambda n: n  # type: ignore[attr-defined]
        sys.modules[modules.names["lazy"]] = false
        assert modules.key() != before
        sys.modules[modules.names["lazy"]] = None  # type: ignore[assignment]
        assert modules.key("perhaps") != perhaps

    def test_edited(self, modules: Modules) -> None:
        """A file that is edited after the look-up is another key once it is imported again."""
        before = modules.key()
        text = modules.path("lazy").read_text()
        modules.path("lazy").write_text(text.replace("SHIFT = 2", "SHIFT = 20"))
        assert modules.key() == before
        importlib.reload(modules.load("lazy"))
        assert modules.key() != before

    def test_unknowable(self, modules: Modules) -> None:
        """Something whose content nobody can know is said."""
        modules.key()
        modules.load("lazy").shift = (i for i in ())
        with pytest.raises(UnknownInput, match="generator"):
            modules.key()
