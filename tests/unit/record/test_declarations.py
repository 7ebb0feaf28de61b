"""kcl.record.declarations: what a user declares of a recipe's inputs, what it cures, and what it does not."""

from __future__ import annotations

import functools
import glob
import importlib
import os
import pathlib
import random
import sys
import warnings

import numpy as np
import pytest

import kcl
from kcl.cache import layers
from kcl.cache.layer import CacheWarning
from kcl.record import declarations, manifest


class Settings:
    """What recipes of this page depend on, and cannot be seen to."""

    amount = 1


def table():
    """A function that recipes find under a name made at run time."""
    return 1


def source(amount):
    """x += amount."""
    return kcl.Source(
        f"kernel void f(global int *x) {{ x[get_global_id(0)] += {amount}; }}",
        entry="f",
        arguments=[kcl.Array("x", np.int32, "(4,)", "inout")],
        global_size="(4,)",
    )


def computed(queue, recipe, *arguments):
    """Launch a new Kernel on zeros; return its number and the look-up in the generator layer as of a new process."""
    layers.reset()
    seen = []
    remove = kcl.add_hook(lambda event: event.layer == "generator" and seen.append(event))
    _event, (x,) = recipe(*arguments)(queue, x=np.zeros(4, np.int32))
    remove()
    (event,) = seen
    return int(x[0]), event.outcome, event.reason


def summed(folder):
    """Add the numbers in all files of a folder."""
    return source(sum(int(pathlib.Path(path).read_text()) for path in sorted(glob.glob(os.path.join(folder, "*.txt")))))


def fill(folder, **numbers):
    """Write files with numbers."""
    folder.mkdir(exist_ok=True)
    for name, number in numbers.items():
        (folder / f"{name}.txt").write_text(str(number))
    return str(folder)


class TestReads:
    def test_without(self, queue, tmp_path):
        """A recipe that looks at a folder is bypassed, with the line and what would cure it."""
        _number, outcome, reason = computed(queue, kcl.kernel(pure=True)(summed), fill(tmp_path / "data", one=1))
        assert outcome == "bypass"
        assert "test_declarations.py:" in reason
        assert "@kcl.kernel(reads=[...])" in reason

    def test_pattern(self, queue, tmp_path):
        """Changed, new and removed files that the pattern matches are misses that name it; others are noise."""
        folder = fill(tmp_path / "data", one=1)
        recipe = kcl.kernel(pure=True, reads=[os.path.join(folder, "*.txt")])(summed)
        changed = ("miss", f"declared input {folder}/*.txt changed")
        assert computed(queue, recipe, folder) == (1, "miss", "not in the cache")
        assert computed(queue, recipe, folder) == (1, "hit", "")
        fill(tmp_path / "data", one=2)
        assert computed(queue, recipe, folder) == (2, *changed)
        fill(tmp_path / "data", two=3)
        assert computed(queue, recipe, folder) == (5, *changed)
        os.remove(os.path.join(folder, "one.txt"))
        assert computed(queue, recipe, folder) == (3, *changed)
        (tmp_path / "data" / "note.md").write_text("9")
        assert computed(queue, recipe, folder) == (3, "hit", "")

    def test_another_folder(self, queue, tmp_path):
        """What lies outside of the declared patterns is still not looked at."""
        folder = fill(tmp_path / "data", one=1)
        recipe = kcl.kernel(pure=True, reads=[str(tmp_path / "other" / "*.txt")])(summed)
        for _ in range(2):
            _number, outcome, reason = computed(queue, recipe, folder)
            assert outcome == "bypass"
            assert "(data)" in reason
            assert "@kcl.kernel(reads=[...])" in reason

    def test_unseen_file(self, queue, tmp_path):
        """A file that the recipe reads where kcl does not look counts where it is declared."""
        path = tmp_path / "data.bin"
        fill_unseen(path, 1)
        recipe = kcl.kernel(pure=True, reads=[path])(by_another_way)
        assert computed(queue, recipe, str(path))[:2] == (1, "miss")
        assert computed(queue, recipe, str(path))[:2] == (1, "hit")
        fill_unseen(path, 2)
        assert computed(queue, recipe, str(path))[:2] == (2, "miss")

    def test_relative_to_the_module(self, child):
        """A relative path is seen from the recipe's module, wherever the process stands; a copied project hits."""
        for name in ("first", "second"):
            (child.directory / name / "data").mkdir(parents=True)
            (child.directory / name / "data" / "a.txt").write_text("1")
            (child.directory / name / "driver.py").write_text(DRIVER)
        outcomes = [child.json(RUN, name) for name in ("first", "first", "second")]
        assert outcomes == [["miss", ""], ["hit", ""], ["hit", ""]]
        (child.directory / "second" / "data" / "a.txt").write_text("2")
        outcome, reason = child.json(RUN, "second")
        assert outcome == "miss"
        assert reason.startswith("declared input data/*.txt changed")
        assert child.json(RUN, "first") == ["hit", ""]

    def test_changed_declaration(self, queue, tmp_path):
        """Another declaration is another key: what it asks for was not looked at before."""
        folder = fill(tmp_path / "data", one=1)
        assert computed(queue, kcl.kernel(pure=True, reads=[f"{folder}/*.txt"])(summed), folder)[1] == "miss"
        assert computed(queue, kcl.kernel(pure=True, reads=[f"{folder}/*"])(summed), folder)[1] == "miss"


DRIVER = """
import glob
import os

import numpy as np

import kcl


@kcl.kernel(pure=True, reads=["data/*.txt"])
def summed():
    paths = glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "*.txt"))
    return kcl.Source(
        f"kernel void f(global int *x) {{ x[0] = {len(paths)}; }}",
        entry="f",
        arguments=[kcl.Array("x", np.int32, "(4,)", "inout")],
        global_size="(1,)",
    )
"""
RUN = """
    import json, sys, os
    sys.path.insert(0, os.path.abspath(sys.argv[1]))
    import numpy, pyopencl as cl, kcl, driver
    events = []
    kcl.add_hook(events.append)
    driver.summed().prepare(cl.create_some_context(interactive=False))
    print(json.dumps([events[0].outcome, events[0].reason.replace("not in the cache", "")]))
"""


@functools.cache
def number_in(path):
    """Read a file once a process."""
    return pathlib.Path(path).read_bytes()[0]


def fill_unseen(path, number):
    """Write a file, and let `number_in` read it before a recipe runs."""
    path.write_bytes(bytes([number]))
    number_in.cache_clear()
    number_in(str(path))


def by_another_way(path):
    """Take what was read before the recipe runs."""
    return source(number_in(path))


class TestEnv:
    def test_listed_environment(self, queue, monkeypatch):
        """A recipe that lists the environment is bypassed, and cured by naming the variables that count."""
        monkeypatch.setenv("AMOUNT", "1")
        _number, outcome, reason = computed(queue, kcl.kernel(pure=True)(from_listed))
        assert (outcome, "@kcl.kernel(env=[...])" in reason) == ("bypass", True)
        recipe = kcl.kernel(pure=True, env=["AMOUNT"])(from_listed)
        assert computed(queue, recipe)[:2] == (1, "miss")
        assert computed(queue, recipe)[:2] == (1, "hit")
        monkeypatch.setenv("AMOUNT", "2")
        assert computed(queue, recipe) == (2, "miss", "variable AMOUNT changed")
        monkeypatch.setenv("ANOTHER", "1")
        assert computed(queue, recipe)[:2] == (2, "hit")


def from_listed():
    """Find a variable in a copy of the environment."""
    return source(dict(os.environ)["AMOUNT"])


class TestDepends:
    def test_module_by_name(self, queue, tmp_path, monkeypatch):
        """What a recipe imports under a name made at run time counts where it is declared."""
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "declared_amounts.py").write_text("AMOUNT = 1\n")
        module = importlib.import_module("declared_amounts")
        _number, outcome, reason = computed(queue, kcl.kernel(pure=True)(from_module), "declared_amounts")
        assert (outcome, "@kcl.kernel(depends=[...])" in reason) == ("bypass", True)
        recipe = kcl.kernel(pure=True, depends=[module])(from_module)
        assert computed(queue, recipe, "declared_amounts")[:2] == (1, "miss")
        assert computed(queue, recipe, "declared_amounts")[:2] == (1, "hit")
        monkeypatch.setattr(module, "AMOUNT", 2)
        assert computed(queue, recipe, "declared_amounts")[:2] == (2, "miss")

    def test_values(self, queue):
        """Values and functions count by what they are now."""
        values = [1]
        recipe = kcl.kernel(pure=True, depends=[values, table])(constant)
        key = recipe().key(queue)["generator"]
        assert [part.name for part in key.parts if part.name.startswith("depends")] == ["depends 0", "depends 1"]
        assert any(part.name == "code table" for part in key.parts)
        values[0] = 2
        assert [d.name for d in key.diff(recipe().key(queue)["generator"])] == ["depends 0"]

    def test_unknowable_value(self, queue):
        """A declared object whose content cannot be known is no cure."""
        with open(os.devnull) as stream:
            assert computed(queue, kcl.kernel(pure=True, depends=[stream])(constant))[1] == "bypass"


def from_module(name):
    """Take a number from a module whose name is a parameter."""
    return source(importlib.import_module(name).AMOUNT)


def constant():
    """Depend on nothing that is seen."""
    return source(1)


class TestVersion:
    def test_vouched(self, queue):
        """A version vouches for what kcl refuses; another version is another key."""
        assert computed(queue, kcl.kernel(pure=True)(drawn))[1] == "bypass"
        assert "@kcl.kernel(version=...)" in computed(queue, kcl.kernel(pure=True)(drawn))[2]
        first, second = (kcl.kernel(pure=True, version=text)(drawn) for text in ("1", "2"))
        assert [computed(queue, recipe)[1] for recipe in (first, first, second, second)] == ["miss", "hit"] * 2

    def test_parameters_and_code_still_count(self, queue, monkeypatch):
        """Parameters, helpers and values that are seen count beside the version."""
        recipe = kcl.kernel(pure=True, version="1")(drawn)
        assert computed(queue, recipe, 1)[:2] == (1, "miss")
        assert computed(queue, recipe, 2)[:2] == (2, "miss")
        monkeypatch.setattr(sys.modules[__name__], "EXTRA", 5)
        assert computed(queue, recipe, 1)[:2] == (6, "miss")

    def test_unknowable_parameter(self, queue):
        """A parameter whose content cannot be known is not vouched for."""
        with open(os.devnull) as stream:
            recipe = kcl.kernel(pure=True, version="1")(with_stream)
            _number, outcome, reason = computed(queue, recipe, stream)
        assert (outcome, "TextIOWrapper" in reason) == ("bypass", True)

    def test_unknowable_global(self, queue):
        """A global whose content cannot be known is."""
        assert computed(queue, kcl.kernel(pure=True)(logged))[1] == "bypass"
        recipe = kcl.kernel(pure=True, version="1")(logged)
        assert [computed(queue, recipe)[1] for _ in range(2)] == ["miss", "hit"]

    def test_what_it_does_while_it_runs(self, queue, tmp_path):
        """A recipe that writes files and reads them again is stored too, where it is vouched for."""
        path = str(tmp_path / "scratch")
        assert "@kcl.kernel(version=...)" in computed(queue, kcl.kernel(pure=True)(writing), path)[2]
        recipe = kcl.kernel(pure=True, version="1")(writing)
        assert [computed(queue, recipe, path)[1] for _ in range(2)] == ["miss", "hit"]

    def test_reads_still_count(self, queue, tmp_path):
        """A file that such a recipe was seen to read counts all the same."""
        folder = fill(tmp_path / "data", one=1)
        recipe = kcl.kernel(pure=True, version="1")(summed)
        assert computed(queue, recipe, folder)[:2] == (1, "miss")
        fill(tmp_path / "data", one=2)
        assert computed(queue, recipe, folder)[:2] == (2, "miss")


EXTRA = 0
STREAM = open(os.devnull)  # noqa: SIM115


def drawn(amount=1):
    """Draw a number that decides nothing."""
    random.random()
    return source(amount + EXTRA)


def with_stream(stream):
    """Take a parameter that cannot be known."""
    return source(1 if stream else 2)


def logged():
    """Use a global that cannot be known."""
    return source(2 if STREAM.closed else 1)


def writing(path):
    """Write a file and read it."""
    pathlib.Path(path).write_text("1")
    return source(pathlib.Path(path).read_text())


class TestDeclare:
    @pytest.mark.parametrize(
        ("declared", "match"),
        [
            ({"reads": "data.txt"}, r"reads=.*takes a list"),
            ({"env": "HOME"}, r"env=.*takes a list"),
            ({"depends": 3}, r"depends=.*takes a list"),
            ({"version": 3}, r"version=.*takes a text"),
            ({"pure": 1}, r"pure=.*takes True or False"),
            ({"env": [3]}, r"env=.*lists texts"),
            ({"reads": [""]}, r"reads=.*lists texts"),
        ],
    )
    def test_mistakes(self, declared, match):
        """What cannot be meant is a TypeError when the recipe is decorated."""
        with pytest.raises(TypeError, match=match):
            kcl.kernel(**{"pure": True, **declared})

    def test_below(self):
        """The function that the user wrote is found below decorators; a class that was wrapped is none."""
        inner = functools.wraps(constant)(lambda: None)
        assert declarations.below(functools.wraps(inner)(lambda: None)) is constant
        assert declarations.below(constant) is constant
        odd = functools.wraps(constant)(lambda: None)
        odd.__wrapped__ = int
        assert declarations.below(odd) is odd

    def test_nothing_declared(self):
        """Without arguments the decorator is as the bare one; `pure` alone declares no input."""
        assert kcl.kernel()(constant).declared == kcl.kernel(constant).declared == declarations.NOTHING
        assert kcl.kernel(pure=True)(constant).declared == declarations.PURE
        assert not declarations.PURE.made
        assert not declarations.PURE.parts

    @pytest.mark.parametrize(
        ("pattern", "path", "covered"),
        [
            ("/a/b.txt", "/a/b.txt", True),
            ("/a/b.txt", "/a", True),
            ("/a/b.txt", "/a/c.txt", False),
            ("/a/*.txt", "/a/c.txt", True),
            ("/a/*.txt", "/a/c.md", False),
            ("/a/*.txt", "/a/d/c.txt", False),
            ("/a/**/c.txt", "/a/c.txt", True),
            ("/a/**/c.txt", "/a/d/e/c.txt", True),
            ("/a/**/c.txt", "/b", False),
        ],
    )
    def test_covers(self, pattern, path, covered):
        """A pattern covers what it matches and the folders on the way."""
        assert manifest.covers(pattern, path) is covered

    def test_excuses(self):
        """A declaration cures the reasons that name it; a version cures all."""
        reason = "f: glob.glob looks at directories; ..., or declare it with @kcl.kernel(reads=[...])"
        assert declarations.declare(["a"], [], [], None, True).excuses(reason)
        assert not declarations.declare([], ["a"], [], None, True).excuses(reason)
        assert declarations.declare([], [], [], "1", True).excuses("anything")
        assert not declarations.NOTHING.excuses(reason)
        assert not declarations.PURE.excuses("declare it with @kcl.kernel(pure=True)")


class TestWithoutPure:
    @pytest.fixture
    def warned(self, recwarn):
        """Return the warnings of kcl: (text, file, line)."""
        kind = CacheWarning
        return lambda: [(str(one.message), one.filename, one.lineno) for one in recwarn if one.category is kind]

    def test_ignored(self, warned):
        """Declared inputs of a recipe that is not pure are ignored; one warning names the line and the cure."""
        recipe, line = kcl.kernel(reads=["a"], env=["B"], depends=[1])(constant), here()
        kcl.kernel(env=["B"])(constant)
        assert recipe.declared == declarations.NOTHING
        ((text, file, number),) = warned()
        assert text.startswith("kcl ignores reads, env and depends of a recipe that is not declared pure")
        assert "write @kcl.kernel(pure=True)" in text
        assert (file, number) == (__file__, line)

    def test_version(self, queue, warned):
        """A version counts, declared pure or not, without a warning."""
        keys = [kcl.kernel(version=text)(constant)().key(queue)["generator"] for text in ("1", "2")]
        assert [difference.name for difference in keys[0].diff(keys[1])] == ["declared version"]
        assert not warned()

    def test_pure(self, warned):
        """Inputs that a pure recipe declares are kept."""
        recipe = kcl.kernel(pure=True, env=["B"])(constant)
        assert recipe.declared == declarations.Declarations(env=("B",), pure=True)
        assert not warned()

    def test_warnings_that_are_errors(self):
        """The decorator decorates where warnings are errors."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert isinstance(kcl.kernel(env=["B"])(constant), kcl.Recipe)


def here():
    """Return the line of the caller."""
    return sys._getframe(1).f_lineno
