"""kcl.record.callables.reach: everything that decides what a recipe returns."""

from __future__ import annotations

import builtins
import importlib
import itertools
import pathlib
import shutil
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reaching import FILES, ROOT, Project

from kcl.errors import UnknownInput
from kcl.record.callables.reach import reach


class Edit(NamedTuple):
    """A change of one file."""

    file: str
    before: str
    after: str


class Act(NamedTuple):
    """What a program does before the key is asked for."""

    statement: str


R, G, C, T, I = "recipes.py", "geometry.py", "config.py", "package/tiles.py", "package/inner.py"  # noqa: E741

MUTATIONS: dict[str, Edit | Act] = {
    "recipe": Edit(R, "even(4)", "even(6)"),
    "global constant": Edit(R, "TILE = 16", "TILE = 32"),
    "type of a global": Edit(R, "TILE = 16", "TILE = 16.0"),
    "global float": Edit(R, "SCALE = 1.5", "SCALE = 1.25"),
    "element deep in a list": Edit(R, "(3, 4.0)", "(3, 5.0)"),
    "element of a set": Edit(R, '"z", "w"', '"z", "v"'),
    "order of a dictionary": Edit(C, '"tile": (4, 4), "size": 1', '"size": 1, "tile": (4, 4)'),
    "closure": Edit(R, "triple = scaled(3)", "triple = scaled(4)"),
    "function in a closure": Edit(R, "return x * n + shift", "return x * n - shift"),
    "default of a function": Edit(R, "shift=7", "shift=8"),
    "keyword default": Edit(R, "by=17", "by=18"),
    "default of the recipe": Edit(R, 'order="C"', 'order="F"'),
    "partial's argument": Edit(R, "by=2)", "by=3)"),
    "partial's function": Edit(G, "return n // by", "return n / by"),
    "lambda": Edit(R, "x + 11", "x + 12"),
    "decorator": Edit(R, "+ 13", "+ 14"),
    "decorated function": Edit(R, "return n + by", "return n - by"),
    "cached function": Edit(R, "n * 19", "n * 20"),
    "class attribute": Edit(R, "pad = 4", "pad = 5"),
    "method": Edit(R, "self.n + self.pad", "self.n - self.pad"),
    "property": Edit(R, "self.n * 23", "self.n * 24"),
    "static method": Edit(R, "return 29", "return 30"),
    "class method": Edit(R, "return cls(n)", "return cls(n + 1)"),
    "attribute of a base class": Edit(G, 'kind = "base"', 'kind = "root"'),
    "method of a base class": Edit(G, "WIDTH + inner.DEPTH", "WIDTH - inner.DEPTH"),
    "other bases": Edit(R, "class Layout(geometry.Base)", "class Layout(object)"),
    "global of another module": Edit(G, "WIDTH = 8", "WIDTH = 9"),
    "constant two modules away": Edit(I, "DEPTH = 47", "DEPTH = 48"),
    "list two modules away": Edit(I, "TABLE = [53]", "TABLE = [54]"),
    "function two modules away": Edit(I, "n + TABLE[0]", "n * TABLE[0]"),
    "helper of a helper": Edit(T, "* 43", "* 44"),
    "context manager": Edit(G, "yield 37", "yield 38"),
    "mutual recursion": Edit(R, "n != 0 and", "n == 0 and"),
    "value of an enumeration": Edit(C, 'FILE = "file"', 'FILE = "path"'),
    "field of an object": Edit(R, "CORNER = Point(1, 2)", "CORNER = Point(1, 3)"),
    "default of a dataclass": Edit(C, "y: int = 5", "y: int = 6"),
    "method of a dataclass": Edit(C, "self.x + self.y", "self.x - self.y"),
    "object in a slot": Edit(R, "DEFAULT = Layout(3)", "DEFAULT = Layout(4)"),
    "module imported in the recipe": Edit("lazily.py", "SHIFT = 59", "SHIFT = 60"),
    "module that such a one imports": Edit("package/unseen.py", "61", "62"),
    "name of another helper": Edit(R, "square as sq", "helper as sq"),
    "shadowed builtin": Edit(R, "TILE = 16", "TILE = 16\nsorted = list"),
    "replaced function": Act("import geometry; geometry.nothing = lambda: None"),
    "library's function replaced by the user's": Act("import math; math.sqrt = lambda n: n"),
    "replaced method": Act("recipes.Layout.size = lambda self: 0"),
    "list changed in place": Act("recipes.LIMITS.append(5)"),
    "dictionary changed in place": Act("recipes.OPTIONS['size'] = 2"),
    "attribute of a function": Act("recipes.even.limit = 3"),
    "object changed in place": Act("recipes.DEFAULT.n = 9"),
    "global added": Act("recipes.len = lambda x: 0; recipes.str = lambda x: ''"),
    "language version": Act("recipes.LOOPY_USE_LANGUAGE_VERSION_2018_2 = 1"),
}

NOISES: dict[str, Edit | Act] = {
    "comment": Edit(R, "TILE = 16", "TILE = 16  # a tile"),
    "comment in the recipe": Edit(R, "    layout = Layout.make(block)", "    # first\n    layout = Layout.make(block)"),
    "blank lines": Edit(R, "def even(n):", "\n\n\ndef even(n):\n"),
    "docstring of the recipe": Edit(R, '"""Build."""', '"""Build what is built."""'),
    "docstring of a class": Edit(R, '"""A layout."""', '"""Another layout."""'),
    "new docstring": Edit(R, "def odd(n):", 'def odd(n):\n    """Tell."""'),
    "docstring of a module": Edit(G, '"""Geometry."""', '"""All geometry."""'),
    "annotation": Edit(R, "def even(n):", "def even(n: int) -> bool:"),
    "annotation of a method": Edit(R, "n: int", "n: float"),
    "annotation in a function": Edit(R, "    total = triple", "    total: int = triple"),
    "line break": Edit(R, "return n == 0 or odd(n - 1)", "return (n == 0\n            or odd(n - 1))"),
    "line break in a comprehension": Edit(
        R, "[SCALE * TILE for _ in LIMITS]", "[\n        SCALE * TILE\n        for _ in LIMITS\n    ]"
    ),
    "line break in with": Edit(R, "else geometry.nothing() as", "else geometry.nothing(\n    ) as"),
    "quotes": Edit(R, '"skip"', "'skip'"),
    "number written otherwise": Edit(R, "TILE = 16", "TILE = 0x10"),
    "unreached function": Edit(R, "return n - 1\n\n\ndef build", "return n - 2\n\n\ndef build"),
    "unreached constant": Edit(R, "UNREACHED = 5", "UNREACHED = 6"),
    "unreached class": Edit(R, "value = 31", "value = 32"),
    "unreached function of another module": Edit(G, "return 41", "return 42"),
    "unreached import": Edit(R, "import math", "import math\nimport json"),
    "order of functions": Edit(R, "UNREACHED = 5", "def first():\n    return 0\n"),
    "order of a set": Edit(R, '{"x", "y", "z", "w"}', '{"w", "z", "x", "y"}'),
    "order of methods": Edit(G, '    kind = "base"\n\n    def depth(self):', "    def depth(self):"),
    "unused class in another module": Edit(C, 'Pair = collections.namedtuple("Pair", "a b")', ""),
    "comment in a lazy module": Edit("lazily.py", "SHIFT = 59", "SHIFT = 59  # far\n"),
    "docstring of a lazy module": Edit("lazily.py", '"""Nobody', '"""No one'),
    "earlier key": Act("reach(recipes.build, dict(block=3))"),
    "replaced function that nobody calls": Act("import geometry; geometry.divide = lambda n, by: n"),
    "the cached function ran": Act("recipes.cached(3)"),
    "imported modules": Act("import json, decimal, fractions"),
    "lazy module imported since": Act("reach(recipes.build, dict(block=3)); import lazily"),
}
NOISES["order of methods"] = Edit(R, "    def size(self):\n        return self.n + self.pad\n\n", "")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The key of the unchanged project."""
    return Project(tmp_path_factory.mktemp("base")).parts()


def changed(tmp_path: pathlib.Path, change: Edit | Act) -> list[list[str]]:
    project = Project(tmp_path)
    if isinstance(change, Act):
        return project.parts(action=change.statement)
    project.edit(*change)
    if change is NOISES["order of methods"]:
        place = "    @staticmethod\n    def origin"
        project.edit(R, place, "    def size(self):\n        return self.n + self.pad\n\n" + place)
    return project.parts()


class TestTables:
    """Each row changes one thing in a real file or process."""

    @pytest.mark.parametrize("name", MUTATIONS)
    @pytest.mark.slow_cases(5)
    def test_mutation(self, name: str, base: list[list[str]], tmp_path: pathlib.Path) -> None:
        """What a recipe reaches is in its key."""
        assert changed(tmp_path, MUTATIONS[name]) != base

    @pytest.mark.parametrize("name", NOISES)
    @pytest.mark.slow_cases(5)
    def test_noise(self, name: str, base: list[list[str]], tmp_path: pathlib.Path) -> None:
        """What cannot change the outcome is not in the key."""
        assert changed(tmp_path, NOISES[name]) == base

    def test_names_are_distinct(self, base: list[list[str]]) -> None:
        """Every part has a name of its own."""
        names = [name for name, _ in base]
        assert len(set(names)) == len(names)


class TestProcesses:
    """One project has one key wherever and however it runs."""

    def test_copy(self, base: list[list[str]], tmp_path: pathlib.Path) -> None:
        """A copy of the tree at another place."""
        Project(tmp_path / "one")
        shutil.copytree(tmp_path / "one", tmp_path / "deep" / "er" / "two")
        assert Project(tmp_path / "deep" / "er" / "two", {}).parts() == base

    @pytest.mark.parametrize("seed", ["0", "1", "12345"])
    def test_hash_seed(self, seed: str, base: list[list[str]], tmp_path: pathlib.Path) -> None:
        """Another seed of string hashes."""
        assert Project(tmp_path).parts(PYTHONHASHSEED=seed) == base

    def test_surroundings(self, base: list[list[str]], tmp_path: pathlib.Path) -> None:
        """Another working directory, locale, home and user."""
        project = Project(tmp_path / "project")
        parts = project.parts(cwd=tmp_path, LC_ALL="C", HOME=str(tmp_path), USER="someone", LOGNAME="someone")
        assert parts == base

    def test_import_order(self, base: list[list[str]], tmp_path: pathlib.Path) -> None:
        """Modules imported in another order, and libraries that were not."""
        project = Project(tmp_path)
        assert project.parts(before="import package.outer, config, geometry") == base
        assert project.parts(before="import numpy") == base

    def test_ways_to_run(self, tmp_path: pathlib.Path) -> None:
        """Imported, as a script, as a module: one key."""
        standalone = FILES[R] + (
            "\n\ndef key():\n    import sys\n    sys.path.insert(0, sys.argv[1])\n"
            "    from kcl.record.callables.reach import reach\n"
            "    print(reach(build, {'block': 16}).parts)\n\n\nif __name__ == '__main__':\n    key()\n"
        )
        project = Project(tmp_path, {**FILES, "standalone.py": standalone})
        ways = ["standalone.py"], ["-m", "standalone"], ["-c", "import standalone; standalone.key()"]
        seen = set()
        for way in ways:
            command = [sys.executable, "-B", *way, str(ROOT)]
            child = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=True)
            seen.add(child.stdout)
        assert len(seen) == 1

    def test_cold_and_warm(self, base: list[list[str]], tmp_path: pathlib.Path) -> None:
        """A recipe's own imports do not change the key of the next look-up in the process."""
        first = "reach(recipes.build, dict(block=16)); recipes.build(block=16)"
        assert Project(tmp_path).parts(action=first) == base

    def test_change_of_a_lazy_module(self, base: list[list[str]], tmp_path: pathlib.Path) -> None:
        """What a program changes in a module that a recipe imported is seen."""
        ran = "reach(recipes.build, dict(block=16)); recipes.build(block=16)"
        assert Project(tmp_path).parts(action=ran + "; import lazily; lazily.SHIFT = 0") != base
        assert Project(tmp_path).parts(action=ran + "; import lazily; lazily.SHIFT = 59") == base

    def test_nothing_is_imported(self, tmp_path: pathlib.Path) -> None:
        """Neither numpy nor pyopencl nor loopy nor the recipe's own imports are imported for a key."""
        assert Project(tmp_path).answer()["modules"] == []

    def test_optimisation(self, tmp_path: pathlib.Path) -> None:
        """``python -O`` is noise to a recipe of OpenCL C, until an assertion is reached."""
        text = "import kcl\n\n\ndef build(n):\n    return kcl.Source('', entry='f')\n\n\n"
        text += "def safe(n):\n    assert n\n    return build(n)\n"
        project = Project(tmp_path, {"recipes.py": text})
        assert project.parts("n=1") == project.parts("n=1", options=("-O",))
        assert project.parts("n=1", function="safe") != project.parts("n=1", function="safe", options=("-O",))

    def test_texts(self, tmp_path: pathlib.Path) -> None:
        """The source of every function is at hand under the name of its part."""
        answer = Project(tmp_path).answer()
        texts = answer["texts"]
        assert texts["code even"].startswith("def even(n):")
        assert texts["class Layout"].startswith("class Layout(geometry.Base):")
        module, line = answer["origins"]["code even"]
        lines = (tmp_path / f"{module}.py").read_text().splitlines()
        assert lines[line - 1] == "def even(n):"
        assert answer["origins"]["class Layout"][0] == "recipes"


UNKNOWN = {
    "time": "import time\ndef build(n):\n    return time.time()",
    "time by name": "from time import perf_counter\ndef build(n):\n    return perf_counter()",
    "time in the recipe": "def build(n):\n    import time as t\n    return t.time()",
    "now": "import datetime\ndef build(n):\n    return datetime.datetime.now()",
    "today": "from datetime import date\ndef build(n):\n    return date.today()",
    "random": "import random\ndef build(n):\n    return random.random()",
    "random by name": "from random import randint\ndef build(n):\n    return randint(0, n)",
    "urandom": "from os import urandom\ndef build(n):\n    return urandom(n)",
    "uuid": "import uuid\ndef build(n):\n    return uuid.uuid4()",
    "secrets": "import secrets\ndef build(n):\n    return secrets.token_hex()",
    "subprocess": "import subprocess\ndef build(n):\n    return subprocess.run('ls')",
    "socket": "import socket\ndef build(n):\n    return socket.gethostname()",
    "eval": "def build(n):\n    return eval('n')",
    "exec": "def build(n):\n    exec('n')",
    "compile": "def build(n):\n    return compile('n', '', 'eval')",
    "globals": "X = 1\ndef build(n):\n    return globals()['X']",
    "locals": "def build(n):\n    return locals()",
    "vars": "def build(n):\n    return vars(n)",
    "__import__": "def build(n):\n    return __import__('json')",
    "import_module": "import importlib\ndef build(n):\n    return importlib.import_module('json')",
    "input": "def build(n):\n    return input()",
    "id": "def build(n):\n    return id(n)",
    "getattr": "import other\ndef build(n):\n    return getattr(other, n)",
    "setattr": "import other\ndef build(n):\n    setattr(other, n, 1)",
    "locale": "import locale\ndef build(n):\n    return locale.getlocale()",
    "exists": "import os.path\ndef build(n):\n    return os.path.exists('x')",
    "frames": "import sys\ndef build(n):\n    return sys._getframe()",
    "source text": "import inspect\ndef build(n):\n    return inspect.getsource(build)",
    "in a helper": "import other\ndef build(n):\n    return other.clock()",
    "in a nested function": "import time\ndef build(n):\n    return [lambda: time.time() for _ in n]",
    "in a method": "import time\nclass A:\n    def m(self):\n        return time.time()\ndef build(n):\n    return A()",
    "in a module that the recipe imports": "def build(n):\n    import lazy\n    return lazy.clock()",
    "a file": "STREAM = open(__file__)\ndef build(n):\n    return STREAM.read()",
    "a generator": "NUMBERS = (i for i in range(3))\ndef build(n):\n    return next(NUMBERS)",
}
KNOWN = {
    "working directory": "import os\ndef build(n):\n    return os.getcwd()",
    "getenv by name": "from os import getenv\ndef build(n):\n    return getenv('HOME')",
    "getenv": "import os\ndef build(n):\n    return os.getenv('HOME')",
    "environ by name": "from os import environ\ndef build(n):\n    return environ.get('HOME')",
    "environ": "import os\ndef build(n):\n    return os.environ['HOME']",
    "sleep": "import time\ndef build(n):\n    time.sleep(0)\n    return n",
    "open": "def build(n):\n    with open('x') as stream:\n        return stream.read()",
    "getattr of a written name": "import other\ndef build(n):\n    return getattr(other, 'VALUE')",
    "getattr of a parameter": "def build(n):\n    return getattr(n, 'real') + getattr(n, str(n))",
    "paths": "import os\ndef build(n):\n    return os.path.join(os.path.dirname(__file__), 'x')",
    "logger": "import logging\nLOG = logging.getLogger(__name__)\ndef build(n):\n    LOG.info('x')\n    return n",
    "lock": "import threading\nLOCK = threading.Lock()\ndef build(n):\n    with LOCK:\n        return n",
    "pattern": "import re\nWORD = re.compile('[a-z]+')\ndef build(n):\n    return WORD.match(n)",
    "decimal": "import decimal, datetime\nX = decimal.Decimal('1.5'), datetime.date(2020, 1, 1)\n"
    "def build(n):\n    return X",
    "unknown name": "def build(n):\n    return missing",
}
OTHER = "import time\nVALUE = 1\ndef clock():\n    return time.monotonic()\n"


class TestUnknown:
    """What cannot be known is said, with function, line and cure."""

    @pytest.mark.parametrize("name", UNKNOWN)
    @pytest.mark.slow_cases(5)
    def test_unknown(self, name: str, tmp_path: pathlib.Path) -> None:
        """A recipe whose outcome other things decide has no direct key."""
        project = Project(tmp_path, {"recipes.py": UNKNOWN[name], "other.py": OTHER, "lazy.py": OTHER})
        message = project.answer("n='x'")["unknown"]
        assert message.startswith(("build", "clock", "A", "<"))
        assert "parameter" in message

    @pytest.mark.parametrize("name", KNOWN)
    @pytest.mark.slow_cases(5)
    def test_known(self, name: str, tmp_path: pathlib.Path) -> None:
        """What looks alike but decides nothing, or is seen elsewhere, has a key."""
        project = Project(tmp_path, {"recipes.py": KNOWN[name], "other.py": OTHER})
        assert project.parts("n=1") == project.parts("n=1")

    def test_place(self, tmp_path: pathlib.Path) -> None:
        """The message names the function, the file and the line."""
        project = Project(tmp_path, {"recipes.py": UNKNOWN["in a helper"], "other.py": OTHER})
        assert project.answer("n=1")["unknown"].startswith("clock (other.py:4): time.monotonic reads the time")

    def test_no_function(self) -> None:
        """Something that is not a Python function is a mistake of the caller."""
        with pytest.raises(TypeError, match="a recipe is a function"):
            reach(len, {})


class TestFrontEnds:
    """Which front ends a recipe can use, and what counts of them."""

    LOOPY = (
        "import loopy as lp\ndef build(n):\n    return lp.make_kernel('', '')",
        "def build(n):\n    import loopy as lp\n    return lp.make_kernel('', '')",
        "def build(n):\n    from loopy import make_kernel\n    return make_kernel('', '')",
        "import kcl\nlp = kcl.lazy('loopy')\ndef build(n):\n    return lp.make_kernel('', '')",
        "def helper():\n    import loopy\n    return loopy\ndef build(n):\n    return helper().make_kernel('', '')",
    )

    @pytest.mark.parametrize("number", range(1, len(LOOPY)))
    def test_loopy(self, number: int, tmp_path: pathlib.Path) -> None:
        """loopy is seen in every way of importing it, and not imported for the key; its generators count."""
        answer = Project(tmp_path, {"recipes.py": self.LOOPY[number]}).answer("n=1")
        assert answer["front_ends"] == ["loopy"]
        assert answer["modules"] == []
        names = {name for name, _ in answer["parts"]}
        assert {"distribution loopy", "distribution islpy", "distribution numpy", "optimize"} <= names

    def test_union(self, tmp_path: pathlib.Path) -> None:
        """A union of types that has one of loopy's counts by its members."""
        text = "import kcl.loopy as lp\nKIND = {}\ndef build(n):\n    return KIND"
        unions = (
            "lp.TranslationUnit | None",
            "lp.TranslationUnit | None | None",
            "None | lp.TranslationUnit",
            "lp.KernelArgument | None",
        )
        digests = []
        for number, union in enumerate(unions):
            answer = Project(tmp_path / str(number), {"recipes.py": text.format(union)}).answer("n=1")
            assert answer["modules"] == []
            digests.append(dict(answer["parts"])["global KIND in build"])
        assert digests[0] == "union of loopy.TranslationUnit, None"
        assert len(set(digests)) == len(unions)

    def test_lazy_and_loaded(self, tmp_path: pathlib.Path) -> None:
        """A lazy module counts as the module that it stands for."""
        lazy = Project(tmp_path / "lazy", {"recipes.py": self.LOOPY[3]}).parts("n=1")
        assert lazy == Project(tmp_path / "loaded", {"recipes.py": self.LOOPY[0]}).parts("n=1")

    @pytest.mark.parametrize("way", ["kcl.Source", "kcl.Source.from_file"])
    def test_opencl(self, way: str, tmp_path: pathlib.Path) -> None:
        """A recipe of OpenCL C needs none of loopy's generators."""
        text = f"import kcl\ndef build(n):\n    return {way}('')"
        answer = Project(tmp_path, {"recipes.py": text}).answer("n=1")
        assert answer["front_ends"] == ["opencl"]
        assert not [name for name, _ in answer["parts"] if name.startswith("distribution")]

    def test_recipe_in_a_recipe(self, tmp_path: pathlib.Path) -> None:
        """A recipe that another one reaches counts as its function."""
        text = "import kcl\n@kcl.kernel\ndef inner(n):\n    return n + 1\ndef build(n):\n    return inner.function(n)"
        before = Project(tmp_path, {"recipes.py": text}).parts("n=1")
        assert before != Project(tmp_path, {"recipes.py": text.replace("+ 1", "+ 2")}).parts("n=1")

    def test_place(self, tmp_path: pathlib.Path) -> None:
        """Code that asks where it lies is marked: what it returns may name its place."""
        text = "import os\ndef build(n):\n    return os.path.dirname(__file__)\ndef other(n):\n    return n"
        project = Project(tmp_path, {"recipes.py": text})
        assert project.answer("n=1")["placed"]
        assert not project.answer("n=1", function="other")["placed"]


class TestReadTexts:
    """Texts count where reached code reads them."""

    def test_docstring(self, tmp_path: pathlib.Path) -> None:
        """A docstring that code reads is a value."""
        text = "def helper():\n    'one'\ndef build(n):\n    return helper.__doc__"
        before = Project(tmp_path, {"recipes.py": text}).parts("n=1")
        assert before != Project(tmp_path, {"recipes.py": text.replace("one", "two")}).parts("n=1")

    def test_annotations(self, tmp_path: pathlib.Path) -> None:
        """An annotation that code reads is a value."""
        text = "def helper(x: int): pass\ndef build(n):\n    return helper.__annotations__"
        before = Project(tmp_path, {"recipes.py": text}).parts("n=1")
        assert before != Project(tmp_path, {"recipes.py": text.replace("int", "float")}).parts("n=1")


class TestParameters:
    """Parameters count by value, given or by default."""

    @settings(max_examples=50, deadline=None)
    @given(
        st.recursive(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none()), st.lists), st.data()
    )
    def test_equal_values(self, value: object, data: st.DataObject) -> None:
        """Two keys are equal when the parameters are the same, type for type."""
        other = data.draw(st.one_of(st.just(value), st.integers(), st.text()))
        one, two = (reach(_recipe, {"value": item}).parts for item in (value, other))
        assert (one == two) == (repr(value) == repr(other))

    def test_unknown_value(self) -> None:
        """A parameter whose content cannot be known is refused with the recipe's name."""
        with pytest.raises(UnknownInput, match=r"_recipe: the content of a builtins.generator object"):
            reach(_recipe, {"value": (i for i in ())})

    def test_default_and_given(self) -> None:
        """The default of a parameter that is given does not count."""
        given = reach(_recipe, {"value": 1, "other": 2})
        assert "default other in _recipe" not in {part.name for part in given.parts}


def _recipe(value: object, other: int = 2) -> object:
    return value, other


REPLACED_FILES = {
    "recipes": """
        import functools
        import math
        import pathlib
        import string
        from {far} import picked
        import {far} as far

        TILE = 16
        NAMES = ("a", ("b", 2.5), frozenset("cd"))
        HERE = pathlib.PurePosixPath("/somewhere")

        def logged(function):
            @functools.wraps(function)
            def wrapper(*args):
                return function(*args) + TILE
            return wrapper

        @logged
        def helper(n):
            return n + 1

        def defaulted(n, by=2, *, shift=3):
            return n * by + shift

        def closing(n):
            def inner():
                return n
            return inner

        closed = closing(5)

        class Base:
            pad = 4

        class Other:
            pad = 6

        class Layout(Base):
            name = "layout"

            def size(self, n):
                return n + self.pad

            @property
            def area(self):
                return 7

            @staticmethod
            def origin():
                return 8

            @classmethod
            def make(cls):
                return cls()

        def build(n, kind=float, given=None):
            import loopy as lp
            value = helper(n) + defaulted(n) + closed() + far.used() + picked() + Layout.make().size(n)
            return lp.make_kernel(str(NAMES), string.digits, HERE, oct(n), math.sqrt(value), kind, given)
    """,
    "far": """
        from {farther} import VALUE

        def used():
            return VALUE

        def picked():
            return 9

        def other():
            return 10
    """,
    "farther": "VALUE = 11",
}
_numbers = itertools.count()


def nothing(*_arguments: object) -> int:
    return 0


CHANGES: dict[str, Callable[[types.ModuleType], object]] = {
    "constant": lambda m: setattr(m, "TILE", 17),
    "type of a constant": lambda m: setattr(m, "TILE", 16.0),
    "tuple": lambda m: setattr(m, "NAMES", ("a",)),
    "path": lambda m: setattr(m, "HERE", m.pathlib.PurePosixPath("/elsewhere")),
    "function": lambda m: setattr(m, "helper", m.defaulted),
    "function's code": lambda m: setattr(m.helper.__wrapped__, "__code__", (lambda n: n + 2).__code__),
    "decorator's code": lambda m: setattr(m.logged, "__code__", (lambda f: f).__code__),
    "wrapped function": lambda m: setattr(m.helper, "__wrapped__", m.closed),
    "what a wrapper calls": lambda m: setattr(m.helper.__closure__[0], "cell_contents", m.closed),
    "attribute of a function": lambda m: setattr(m.defaulted, "level", 3),
    "attributes of a function made anew": lambda m: setattr(m.helper, "__dict__", {"__wrapped__": m.closed}),
    "name of a function": lambda m: setattr(m.defaulted, "__qualname__", "renamed"),
    "default": lambda m: setattr(m.defaulted, "__defaults__", (4,)),
    "mutable default": lambda m: setattr(m.defaulted, "__defaults__", ([4],)),
    "keyword default": lambda m: setattr(m.defaulted, "__kwdefaults__", {"shift": 5}),
    "keyword default in place": lambda m: m.defaulted.__kwdefaults__.update(shift=5),
    "keyword default gone": lambda m: m.defaulted.__kwdefaults__.clear(),
    "cell": lambda m: setattr(m.closed.__closure__[0], "cell_contents", 6),
    "recipe's code": lambda m: setattr(m.build, "__code__", m.defaulted.__code__.replace(co_name="build")),
    "class": lambda m: setattr(m, "Layout", m.Other),
    "class attribute": lambda m: setattr(m.Layout, "name", "other"),
    "new class attribute": lambda m: setattr(m.Layout, "extra", 1),
    "class attribute gone": lambda m: delattr(m.Layout, "name"),
    "method": lambda m: setattr(m.Layout, "size", nothing),
    "method's code": lambda m: setattr(m.Layout.size, "__code__", nothing.__code__),
    "property's function": lambda m: setattr(m.Layout.area.fget, "__code__", nothing.__code__),
    "property made anew": lambda m: m.Layout.__dict__["area"].__init__(nothing),
    "static method made anew": lambda m: m.Layout.__dict__["origin"].__init__(lambda: 4),
    "attribute of a base": lambda m: setattr(m.Base, "pad", 5),
    "bases": lambda m: setattr(m.Layout, "__bases__", (m.Other,)),
    "name of a class": lambda m: setattr(m.Layout, "__qualname__", "Renamed"),
    "function of another module": lambda m: setattr(m.far, "used", m.far.other),
    "constant two modules away": lambda m: setattr(m.far, "VALUE", 12),
    "name that was imported": lambda m: setattr(m, "picked", m.far.other),
    "module": lambda m: setattr(m, "far", types.SimpleNamespace(used=m.closed)),
    "name of a module": lambda m: setattr(m.far, "__name__", "renamed"),
    "module in the table": lambda m: sys.modules.pop(m.far.__name__),
    "builtin shadowed": lambda m: setattr(m, "oct", nothing),
    "builtin replaced": lambda m: setattr(builtins, "oct", m.closed),
    "library function replaced": lambda m: setattr(m.math, "sqrt", m.closed),
    "value of a library": lambda m: setattr(m.string, "digits", m.closed),
    "language version": lambda m: setattr(m, "LOOPY_USE_LANGUAGE_VERSION_2018_2", 1),
    "library loaded": lambda _: sys.modules.setdefault("loopy", types.ModuleType("loopy")),
    "place of the module": lambda m: setattr(m, "__file__", "/elsewhere/recipes.py"),
    "nothing": nothing,
    "unreached name": lambda m: setattr(m, "UNREACHED", 1),
    "unreached name in another module": lambda m: setattr(m.far, "other", None),
    "list in place of a constant": lambda m: setattr(m, "TILE", [1]),
}


UNCHANGED = {
    *("nothing", "unreached name", "unreached name in another module", "decorator's code"),
    *("module in the table", "library loaded", "place of the module"),
}


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The files above under names of their own; what the process shares is put back."""
    number = next(_numbers)
    names = {name: f"memo_{name}_{number}" for name in REPLACED_FILES}
    for name, text in REPLACED_FILES.items():
        (tmp_path / f"{names[name]}.py").write_text(textwrap.dedent(text).format(**names))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = importlib.import_module(names["recipes"])
    monkeypatch.setattr(builtins, "oct", oct)
    monkeypatch.setattr(found.math, "sqrt", found.math.sqrt)
    monkeypatch.setattr(found.string, "digits", found.string.digits)
    monkeypatch.setitem(sys.modules, "loopy", None)
    monkeypatch.delitem(sys.modules, "loopy")
    return found


class TestReplaced:
    """What a program replaces in its process counts at the next key."""

    @pytest.mark.parametrize("name", CHANGES)
    def test_change(self, name: str, module: types.ModuleType) -> None:
        """Whatever is replaced that the recipe reaches, the key is another one, or cannot be known."""
        arguments = {"n": 3, "kind": np.float32, "given": (1, "x")}
        before = reach(module.build, arguments).parts
        CHANGES[name](module)
        try:
            after = reach(module.build, arguments).parts
        except UnknownInput:
            after = ()
        assert (after == before) == (name in UNCHANGED)

    def test_texts(self, module: types.ModuleType) -> None:
        """Texts are those of these parameters."""
        reach(module.build, {"n": "x" * 1000, "kind": float, "given": "z" * 1000})
        found = reach(module.build, {"n": "y" * 1000, "kind": float, "given": 1})
        parameters = {name: text for name, text in found.texts().items() if name.startswith("parameter")}
        assert parameters == {"parameter n": repr("y" * 1000)}
        assert found.texts()["code helper"].lstrip().startswith("@logged")
        assert found.origins()["code build"][0] == module.__name__
