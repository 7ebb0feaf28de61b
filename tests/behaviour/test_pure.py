"""What a pure recipe must not do, and what happens if it does: whole processes, with a change between two of them.

The page doc/explanation/pure-recipes.md names these tests. A stale hit is a number of before the change.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import shutil
import sys
import textwrap
import zipfile

import pytest
from harness import ROOT, Child

pytestmark = pytest.mark.slow_platforms

DRIVER = """
import json, sys
import numpy as np, pyopencl as cl
import kcl
import recipes

said, numbers = [], []
kcl.add_hook(lambda event: event.layer == "generator" and said.append([event.outcome, event.reason]))
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
for name in sys.argv[1:]:
    _event, (x,) = getattr(recipes, name)()(queue, x=np.zeros(1, np.int32))
    numbers.append(int(x[0]))
print(json.dumps([[number, *look] for number, look in zip(numbers, said)]))
"""
COMMON = """
import functools
import os

import numpy as np

import kcl

HERE = os.path.dirname(os.path.abspath(__file__))
pure = kcl.kernel(pure=True)


def source(number):
    return kcl.Source(
        f"kernel void f(global int *x) {{ x[0] = {number}; }}",
        entry="f",
        arguments=[kcl.Array("x", np.int32, "(1,)", "inout")],
        global_size="(1,)",
    )
"""
HEAD = "import functools\nimport os\n\nfrom common import HERE, pure, source\n\n"
MISS = "not in the cache"


class Site:
    """A project and an installed distribution, run in processes that share a cache."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.project = child.directory / "project"
        self.packages = child.directory / "site-packages"
        self.packages.mkdir()
        self.project.mkdir()
        self.write("driver.py", DRIVER)
        self.write("common.py", COMMON)

    def write(self, file: str, text: str) -> pathlib.Path:
        """Write a file of the project."""
        path = self.project / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def recipes(self, text: str) -> None:
        """Write the module of the recipes."""
        self.write("recipes.py", HEAD + textwrap.dedent(text))

    def edit(self, before: str, after: str, file: str = "recipes.py") -> None:
        """Replace a text that occurs once."""
        path = self.project / file
        assert path.read_text().count(before) == 1
        path.write_text(path.read_text().replace(before, after))

    def install(self, text: str) -> pathlib.Path:
        """Install the distribution `tuner`, a module, with the record that an installer writes."""
        path = self.packages / "tuner.py"
        path.write_text(textwrap.dedent(text))
        about = self.packages / "tuner-1.0.dist-info"
        about.mkdir()
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).decode().rstrip("=")
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tuner\nVersion: 1.0\n")
        (about / "RECORD").write_text(f"tuner.py,sha256={digest},{path.stat().st_size}\n{about.name}/METADATA,,\n")
        return path

    def run(self, *names: str, **variables: str) -> list[list[object]]:
        """Launch recipes in a new process; returns number, outcome and reason of each."""
        paths = os.pathsep.join([str(self.project), str(self.packages), str(ROOT)])
        code = "import runpy, sys; sys.argv[0] = sys.argv.pop(1); runpy.run_path(sys.argv[0], run_name='__main__')"
        driver = str(self.project / "driver.py")
        options = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": paths}
        return self.child.json(code, driver, *names, **{**options, **variables})

    def outcomes(self, *names: str, **variables: str) -> list[list[object]]:
        """Return number and outcome of each recipe."""
        return [look[:2] for look in self.run(*names, **variables)]


@pytest.fixture
def site(child):
    """A project without recipes."""
    return Site(child)


READERS = {
    "cache": """
        @functools.cache
        def number():
            with open(os.path.join(HERE, "table.txt")) as stream:
                return int(stream.read())
        """,
    "cached_property": """
        class Table:
            @functools.cached_property
            def number(self):
                with open(os.path.join(HERE, "table.txt")) as stream:
                    return int(stream.read())

        table = Table()

        def number():
            return table.number
        """,
}
TWO = """

@pure
def first():
    return source(number())


@pure
def second():
    return source(10 + number())
"""


class TestReaders:
    """A reader that remembers hides its file from the next recipe."""

    @pytest.mark.parametrize("reader", READERS)
    @pytest.mark.slow_cases(2)
    def test_reader_that_remembers(self, site, reader):
        """The recipe that reads first misses after a change of the file; the next one is a stale hit."""
        site.write("table.txt", "1")
        site.recipes(textwrap.dedent(READERS[reader]) + TWO)
        assert site.outcomes("first", "second") == [[1, "miss"], [11, "miss"]]
        site.write("table.txt", "2")
        assert site.outcomes("first", "second") == [[2, "miss"], [11, "hit"]]

    def test_declared_read(self, site):
        """A declared file counts for every recipe that declares it."""
        site.write("table.txt", "1")
        text = textwrap.dedent(READERS["cache"]) + TWO.replace("@pure", '@kcl.kernel(pure=True, reads=["table.txt"])')
        site.recipes("import kcl\n" + text)
        assert site.outcomes("first", "second") == [[1, "miss"], [11, "miss"]]
        site.write("table.txt", "2")
        assert site.outcomes("first", "second") == [[2, "miss"], [12, "miss"]]

    def test_module_that_reads_while_it_is_imported(self, site):
        """A recipe that imports a module of the project which reads a file is bypassed: nothing is stored."""
        site.write("table.txt", "1")
        site.write("data.py", "from common import HERE\nNUMBER = int(open(HERE + '/table.txt').read())\n")
        site.recipes("@pure\ndef first():\n    import data\n    return source(data.NUMBER)\n")
        assert site.outcomes("first") == [[1, "bypass"]]
        site.write("table.txt", "2")
        assert site.outcomes("first") == [[2, "bypass"]]


class TestLibraries:
    """A library that decides for the user is not looked into."""

    ONE = "import tuner\n\n\n@pure\ndef first():\n    return source(tuner.number())\n"

    def test_library_that_reads_a_variable(self, site):
        """A variable that a library reads is not observed: a stale hit."""
        site.install("import os\n\ndef number():\n    return int(os.environ['TUNER'])\n")
        site.recipes(self.ONE)
        assert site.outcomes("first", TUNER="1") == [[1, "miss"]]
        assert site.outcomes("first", TUNER="2") == [[1, "hit"]]

    @pytest.mark.slow
    def test_library_that_looks_for_a_file(self, site):
        """Whether a file is there that a library looks for is not observed: a stale hit."""
        site.install("import os\n\ndef number():\n    return 1 + os.path.exists(os.environ['TUNER'])\n")
        site.recipes(self.ONE)
        assert site.outcomes("first", TUNER=os.sep) == [[2, "miss"]]
        assert site.outcomes("first", TUNER=os.path.join(os.sep, "absent")) == [[2, "hit"]]

    @pytest.mark.slow
    def test_library_that_is_configured(self, site):
        """What the driver registers with a library does not count: a stale hit."""
        site.install("known = {}\n\ndef register(n):\n    known['n'] = n\n\ndef number():\n    return known['n']\n")
        site.recipes(self.ONE.replace("\n\n\n", "\n\ntuner.register(1)\n\n\n", 1))
        assert site.outcomes("first") == [[1, "miss"]]
        site.edit("register(1)", "register(2)")
        assert site.outcomes("first") == [[1, "hit"]]

    def test_declared_variable(self, site):
        """A declared variable counts whoever reads it."""
        site.install("import os\n\ndef number():\n    return int(os.environ['TUNER'])\n")
        site.recipes("import kcl\n" + self.ONE.replace("@pure", '@kcl.kernel(pure=True, env=["TUNER"])'))
        assert site.outcomes("first", TUNER="1") == [[1, "miss"]]
        assert site.outcomes("first", TUNER="2") == [[2, "miss"]]


class TestInstalled:
    """An installed package counts by its version and its record; its code is not walked."""

    def test_helper_in_an_installed_package(self, site):
        """An edit of an installed file does not count: a stale hit."""
        path = site.install("def number():\n    return 1\n")
        site.recipes(TestLibraries.ONE)
        assert site.outcomes("first") == [[1, "miss"]]
        path.write_text("def number():\n    return 2\n")
        assert site.outcomes("first") == [[1, "hit"]]

    @pytest.mark.slow
    def test_recipe_in_an_installed_package(self, site):
        """A global that the driver sets in the module of an installed recipe does not count: a stale hit."""
        site.install("from common import pure, source\n\nN = 0\n\n\n@pure\ndef first():\n    return source(N)\n")
        site.recipes("import tuner\nfrom tuner import first\n\ntuner.N = 1\n")
        assert site.outcomes("first") == [[1, "miss"]]
        site.edit("N = 1", "N = 2")
        assert site.outcomes("first") == [[1, "hit"]]


PLUGIN = """
import importlib.util


def load(path):
    spec = importlib.util.spec_from_file_location("plugin", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""


class TestModules:
    """A module that is made from a path is not among the imported ones."""

    def test_module_made_from_a_path(self, site):
        """A recipe that uses the module is a stale hit after an edit of the file; one that uses a function misses."""
        site.write("plugins/plugin.py", "def number():\n    return 1\n")
        site.recipes(
            PLUGIN
            + """

plugin = load(os.path.join(HERE, "plugins", "plugin.py"))
number = plugin.number


@pure
def first():
    return source(plugin.number())


@pure
def second():
    return source(number())
"""
        )
        assert site.outcomes("first", "second") == [[1, "miss"], [1, "miss"]]
        site.edit("1", "2", "plugins/plugin.py")
        assert site.outcomes("first", "second") == [[1, "hit"], [2, "miss"]]

    @pytest.mark.slow
    def test_module_made_in_the_recipe(self, site):
        """A recipe that makes the module itself is bypassed: nothing is stored."""
        site.write("plugins/plugin.py", "def number():\n    return 1\n")
        made = 'load(os.path.join(HERE, "plugins", "plugin.py"))'
        site.recipes(f"{PLUGIN}\n\n@pure\ndef first():\n    return source({made}.number())\n")
        assert site.outcomes("first") == [[1, "bypass"]]
        site.edit("1", "2", "plugins/plugin.py")
        assert site.outcomes("first") == [[2, "bypass"]]


class TestClasses:
    """A class counts by its body only where it belongs to the user's code."""

    def test_class_that_a_library_makes(self, site):
        """A class that a function of a library makes counts as the library's: a stale hit."""
        site.install("def made(n):\n    class Made:\n        number = n\n    return Made\n")
        site.recipes("import tuner\n\nMade = tuner.made(1)\n\n\n@pure\ndef first():\n    return source(Made.number)\n")
        assert site.outcomes("first") == [[1, "miss"]]
        site.edit("made(1)", "made(2)")
        assert site.outcomes("first") == [[1, "hit"]]

    @pytest.mark.slow
    def test_class_made_by_the_standard_library(self, site):
        """A class that `type` or `make_dataclass` makes in the user's code counts by its body."""
        site.recipes(
            """
            from dataclasses import field, make_dataclass

            Made = type("Made", (), {"get": lambda self: 1})
            Options = make_dataclass("Options", [("n", int, field(default=1))])


            @pure
            def first():
                return source(Made().get())


            @pure
            def second():
                return source(Options().n)
            """
        )
        assert site.outcomes("first", "second") == [[1, "miss"], [1, "miss"]]
        site.edit("self: 1", "self: 2")
        site.edit("default=1", "default=2")
        assert site.outcomes("first", "second") == [[2, "miss"], [2, "miss"]]


class TestState:
    """State that keys leave out on purpose."""

    def test_overridden_cached_property(self, site):
        """A value that is assigned to a cached property does not count: a stale hit."""
        site.recipes(
            """
            class Table:
                @functools.cached_property
                def number(self):
                    return 0


            table = Table()
            table.number = 1


            @pure
            def first():
                return source(table.number)
            """
        )
        assert site.outcomes("first") == [[1, "miss"]]
        site.edit("number = 1", "number = 2")
        assert site.outcomes("first") == [[1, "hit"]]

    def test_order_of_a_set(self, site):
        """The order in which a set was filled decides its order, and does not count: a stale hit."""
        site.recipes("NUMBERS = set([8, 0])\n\n\n@pure\ndef first():\n    return source(list(NUMBERS)[0])\n")
        assert site.outcomes("first") == [[8, "miss"]]
        site.edit("[8, 0]", "[0, 8]")
        assert site.outcomes("first") == [[8, "hit"]]

    def test_name_of_a_folder(self, site):
        """A copy of the project in a folder of another name hits what the first one made: a stale hit."""
        site.recipes("@pure\ndef first():\n    return source(len(os.path.basename(HERE)))\n")
        assert site.outcomes("first") == [[len("project"), "miss"]]
        copy = site.project.with_name("other")
        shutil.copytree(site.project, copy)
        site.project = copy
        assert site.outcomes("first") == [[len("project"), "hit"]]

    def test_facts_of_the_machine(self, site):
        """A recipe that asks for the number of processors is bypassed: nothing is stored."""
        site.recipes("@pure\ndef first():\n    return source(os.cpu_count() or 1)\n")
        assert site.outcomes("first") == [[os.cpu_count() or 1, "bypass"]]

    def test_registry_that_one_recipe_fills(self, site):
        """A recipe that hits does not fill the registry; the next one misses and sees it empty: a wrong number."""
        site.recipes(
            """
            known = {}


            @pure
            def first():
                known["n"] = 3
                return source(1)


            @pure
            def second():
                return source(known.get("n", 0))
            """
        )
        assert site.outcomes("first", "second") == [[1, "miss"], [3, "miss"]]
        assert site.outcomes("first", "second") == [[1, "hit"], [0, "miss"]]


class TestMemory:
    """What a recipe remembers counts for the next one, and is not remembered on a hit."""

    @pytest.mark.parametrize(
        ("state", "act"),
        [
            ("seen = []", "seen.append(name)"),
            ("seen = {}", "seen.setdefault(name, n)"),
            ("count = 0", "global count; count += 1"),
        ],
        ids=["log", "memo", "counter"],
    )
    @pytest.mark.slow_cases(3)
    def test_log_of_recipes(self, site, state, act):
        """Of three recipes that write a log each run hits one more than the run before."""
        site.recipes(
            f"""
            import kcl

            {state}


            def recipe(name, n):
                def made():
                    {act}
                    return source(n)
                return kcl.kernel(pure=True)(made)


            first, second, third = recipe("first", 1), recipe("second", 2), recipe("third", 3)
            """
        )
        numbers = [1, 2, 3]
        for hits in range(3):
            found = site.outcomes("first", "second", "third")
            assert found == [[n, "hit" if n <= hits else "miss"] for n in numbers]

    def test_global_that_is_set_lazily(self, site):
        """The run that sets the global stores under another key than the next run looks up: a needless miss."""
        site.recipes(
            """
            scale = None


            def number(n):
                global scale
                if scale is None:
                    scale = 2
                return n * scale


            @pure
            def first():
                return source(number(1))


            @pure
            def second():
                return source(number(2))
            """
        )
        assert site.outcomes("first", "second") == [[2, "miss"], [4, "miss"]]
        assert site.outcomes("first", "second") == [[2, "hit"], [4, "miss"]]


class TestSeen:
    """What kcl sees, or refuses, of ways to read that are easily missed."""

    def test_file_read_in_a_thread(self, site):
        """A thread that the recipe starts is observed with it."""
        site.write("table.txt", "1")
        site.recipes(
            """
            import threading


            @pure
            def first():
                found = []
                thread = threading.Thread(target=lambda: found.append(int(open(HERE + "/table.txt").read())))
                thread.start()
                thread.join()
                return source(found[0])
            """
        )
        assert site.outcomes("first", "first") == [[1, "miss"], [1, "hit"]]
        site.write("table.txt", "2")
        assert site.run("first") == [[2, "miss", "file table.txt changed"]]

    @pytest.mark.slow
    def test_changed_working_directory(self, site):
        """A recipe that changes the working directory is bypassed: a hit would leave it as it is."""
        site.write("tables/table.txt", "1")
        text = 'os.chdir(HERE + "/tables")\n    return source(int(open("table.txt").read()))'
        site.recipes(f"@pure\ndef first():\n    {text}\n")
        ((number, outcome, reason),) = site.run("first")
        assert (number, outcome) == (1, "bypass")
        assert "changed the working directory" in str(reason)
        site.write("tables/table.txt", "2")
        assert site.outcomes("first") == [[2, "bypass"]]

    @pytest.mark.parametrize("zipped", [False, True], ids=["folder", "zip"])
    @pytest.mark.parametrize(
        "read",
        [
            'import pkgutil\n    text = pkgutil.get_data("tables", "table.txt")',
            'import importlib.resources as r\n    text = r.files("tables").joinpath("table.txt").read_bytes()',
        ],
        ids=["pkgutil", "resources"],
    )
    @pytest.mark.slow_cases(4)
    def test_file_read_by_a_loader(self, site, read, zipped):
        """A file that a loader reads for the recipe counts, in a zipped package too."""

        def fill(number):
            site.write("tables/__init__.py", "")
            site.write("tables/table.txt", str(number))
            if zipped:
                with zipfile.ZipFile(site.packages / "tables.zip", "w") as archive:
                    for name in ("tables/__init__.py", "tables/table.txt"):
                        archive.write(site.project / name, name)
                shutil.rmtree(site.project / "tables")

        fill(1)
        path = f"import sys\nsys.path.insert(0, {str(site.packages / 'tables.zip')!r})\n" if zipped else ""
        site.recipes(f"{path}import tables\n\n\n@pure\ndef first():\n    {read}\n    return source(int(text))\n")
        before = site.run("first")[0]
        fill(2)
        after = site.run("first")[0]
        assert [before[0], after[0]] == [1, 2]
        assert before[1] == after[1]
        assert after[1] in ("miss", "bypass"), after


class TestPage:
    def test_names(self):
        """The page names every test of this file, and no other."""
        page = (ROOT / "doc" / "explanation" / "pure-recipes.md").read_text()
        here = {name for kind in _classes() for name in vars(kind) if name.startswith("test_")}
        named = set(re.findall(r"`(test_\w+)`", page))
        assert named <= here
        assert here - named == {"test_names"}


def _classes():
    return [thing for name, thing in vars(sys.modules[__name__]).items() if name.startswith("Test")]
