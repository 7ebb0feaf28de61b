"""kcl.record.callables.import_watch: modules that a recipe imports in its body, and what becomes of them."""

from __future__ import annotations

import importlib
import itertools
import pathlib
import sys
import types

import pytest

from kcl.errors import UnknownInput
from kcl.record.callables import import_watch
from kcl.record.callables.reach import reach

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
_numbers = itertools.count()


class Modules:
    """The files above under names of their own, on the path of this process."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        number = next(_numbers)
        self.names = {name: f"witness_{name}_{number}" for name in FILES}
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
        with import_watch.holding():
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

    def test_loaders_are_left_alone(self, modules: Modules) -> None:
        """A module that was attended has the loader that it would have had."""
        modules.key()
        lazy = modules.load("lazy")
        assert lazy.__spec__ is not None
        assert type(lazy.__loader__) is type(lazy.__spec__.loader) is type(pytest.__loader__)


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
        modules.key()
        modules.load("lazy").late = None
        assert "changed" in str(modules.key("other"))
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
        with import_watch.holding():
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
        """A file that was edited after the look-up: before its import, and just in time for it."""
        before = modules.key()
        text = modules.path("lazy").read_text()
        modules.path("lazy").write_text(text.replace("SHIFT = 2", "SHIFT = 20"))
        edited = modules.key()
        assert edited != before
        modules.path("lazy").write_text(text.replace("SHIFT = 2", "SHIFT = 200"))
        modules.load("lazy")
        assert modules.key() not in (before, edited)

    def test_unknowable(self, modules: Modules) -> None:
        """Something whose content nobody can know is said."""
        modules.key()
        modules.load("lazy").shift = (i for i in ())
        with pytest.raises(UnknownInput, match="generator"):
            modules.key()
