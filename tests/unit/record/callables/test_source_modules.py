"""kcl.record.callables.source_modules: a module that only the recipe imports counts by its source."""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
import zipfile

import pytest

from kcl.errors import UnknownInput
from kcl.record.callables import import_watch, source_modules
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
    def test_not_imported(self, files):
        """The module is a part of the key; neither it nor what it imports is loaded, and a watch is kept."""
        files("low{n}", "VALUE = 3")
        number = files("high{n}", "import low{n}\nVALUE = low{n}.VALUE")
        found = parts(recipe_of(number, "import high{n}; return high{n}.VALUE"))
        assert {f"module high{number}", f"module low{number}"} <= found.keys()
        assert not {f"high{number}", f"low{number}"} & sys.modules.keys()
        assert import_watch.covers(f"high{number}")

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
        assert (parts(recipe) == before) is same

    def test_package(self, files):
        """A module in a package counts with the package, which an import runs first."""
        files("pack{n}/__init__", "STARTED = 1")
        number = files("pack{n}/inner", "from . import STARTED\nVALUE = STARTED")
        recipe = recipe_of(number, "from pack{n}.inner import VALUE; return VALUE")
        before = parts(recipe)
        assert {f"module pack{number}", "module inner"} <= before.keys()
        files("pack{n}/__init__", "STARTED = 20")
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


class TestExists:
    def test_found(self, files):
        """A module exists where an import would find its source, also in a package; nothing is imported."""
        files("pack{n}/__init__", "")
        number = files("pack{n}/inner", "1 / 0")
        assert source_modules.exists(f"pack{number}.inner")
        assert not source_modules.exists(f"pack{number}.outer")
        assert not source_modules.exists(f"absent{number}")
        assert f"pack{number}" not in sys.modules

    def test_broken(self, files):
        """A file that is no Python has no code."""
        number = files("broken{n}", "def")
        assert not source_modules.exists(f"broken{number}")

    def test_archived(self, tmp_path, monkeypatch):
        """So does one in an archive on the path."""
        archive = tmp_path / "modules.zip"
        with zipfile.ZipFile(archive, "w") as stream:
            stream.writestr("archived_module.py", "VALUE = 1")
        monkeypatch.syspath_prepend(str(archive))
        assert source_modules.exists("archived_module")
