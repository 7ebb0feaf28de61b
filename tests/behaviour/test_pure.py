"""What a pure recipe promises: whole processes, with a change between two of them.

The page doc/explanation/pure-recipes.md names these tests. A stale hit is a number of before the change.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import shutil
import textwrap

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
pure = kcl.kernel(pure=True, version=os.environ.get("RECIPES", "1"))


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


class TestCounted:
    """What counts beside version and parameters: the names in the code that the recipe reaches."""

    def test_version(self, site):
        """Another version is a miss, and the recipe runs."""
        site.write("number.txt", "1")
        site.recipes("@pure\ndef recipe():\n    return source(open(os.path.join(HERE, 'number.txt')).read())\n")
        assert site.outcomes("recipe") == [[1, "miss"]]
        site.write("number.txt", "2")
        assert site.outcomes("recipe", RECIPES="2") == [[2, "miss"]]

    @pytest.mark.parametrize(
        ("text", "before", "after"),
        [
            (
                "def helper():\n    return 1\n\n\n@pure\ndef recipe():\n    return source(helper())\n",
                "return 1",
                "return 2",
            ),
            ("LEVEL = 1\n\n\n@pure\ndef recipe():\n    return source(LEVEL)\n", "= 1", "= 2"),
            (
                "class Level:\n    value = 1\n    def get(self):\n        return self.value\n\n\n"
                "@pure\ndef recipe():\n    return source(Level().get())\n",
                "= 1",
                "= 2",
            ),
        ],
        ids=["helper", "global", "class"],
    )
    def test_code(self, site, text, before, after):
        """A helper, a global or a class that changes is a miss."""
        site.recipes(text)
        assert [site.outcomes("recipe"), site.outcomes("recipe")] == [[[1, "miss"]], [[1, "hit"]]]
        site.edit(before, after)
        assert site.outcomes("recipe") == [[2, "miss"]]

    def test_module_that_the_body_imports(self, site):
        """A module of the project that the body imports counts by all files of its folder or package."""
        site.write("far.py", "from farther import NUMBER\n")
        site.write("farther.py", "NUMBER = 1\n")
        site.recipes("@pure\ndef recipe():\n    from far import NUMBER\n    return source(NUMBER)\n")
        assert [site.outcomes("recipe"), site.outcomes("recipe")] == [[[1, "miss"]], [[1, "hit"]]]
        site.write("farther.py", "NUMBER = 2\n")
        assert site.outcomes("recipe") == [[2, "miss"]]

    def test_installed_package(self, site):
        """An installed package counts by its version and the record of its files."""
        path = site.install("def number():\n    return 1\n")
        site.recipes("import tuner\n\n\n@pure\ndef recipe():\n    return source(tuner.number())\n")
        assert [site.outcomes("recipe"), site.outcomes("recipe")] == [[[1, "miss"]], [[1, "hit"]]]
        shutil.rmtree(site.packages / "tuner-1.0.dist-info")
        path.unlink()
        site.install("def number():\n    return 2\n")
        assert site.outcomes("recipe") == [[2, "miss"]]

    def test_noise(self, site):
        """Comments, other functions and the place of the project do not count."""
        site.recipes("@pure\ndef recipe():\n    return source(1)\n")
        assert site.outcomes("recipe") == [[1, "miss"]]
        site.edit("@pure", "# a comment\ndef other():\n    return 2\n\n\n@pure")
        site.project = site.project.rename(site.child.directory / "moved")
        assert site.outcomes("recipe") == [[1, "hit"]]


class TestPromised:
    """What the promise covers: kcl does not look, so the version has to change with it."""

    def test_file(self, site):
        """A file that the recipe reads does not count."""
        site.write("number.txt", "1")
        site.recipes("@pure\ndef recipe():\n    return source(open('project/number.txt').read())\n")
        site.child.directory.joinpath("project/number.txt").write_text("1")
        assert site.outcomes("recipe")[0][1] == "miss"
        site.write("number.txt", "2")
        assert site.outcomes("recipe") == [[1, "hit"]]

    def test_variable(self, site):
        """A variable of the environment does not count."""
        site.recipes("@pure\ndef recipe():\n    return source(os.environ['NUMBER'])\n")
        assert site.outcomes("recipe", NUMBER="1") == [[1, "miss"]]
        assert site.outcomes("recipe", NUMBER="2") == [[1, "hit"]]

    def test_state_of_a_library(self, site):
        """What a program sets in a library does not count."""
        site.install("LEVEL = 1\n\n\ndef number():\n    return LEVEL\n")
        body = "@pure\ndef {}():\n    return source(tuner.{})\n\n\n"
        body = body.format("recipe", "number()") + body.format("named", "LEVEL")
        site.recipes("import tuner\n\ntuner.LEVEL = 1\n\n\n" + body)
        assert site.outcomes("recipe", "named") == [[1, "miss"], [1, "miss"]]
        site.edit("tuner.LEVEL = 1", "tuner.LEVEL = 2")
        assert site.outcomes("recipe", "named") == [[1, "hit"], [1, "hit"]]

    def test_effects(self, site):
        """The body does not run on a hit, so it fills no registry for another recipe."""
        site.recipes(
            """
            SEEN = []


            def seen():
                return globals()["SE" + "EN"]


            @pure
            def first():
                seen().append(1)
                return source(1)


            @pure
            def second():
                return source(len(seen()))
            """
        )
        assert site.outcomes("first", "second") == [[1, "miss"], [1, "miss"]]
        assert site.outcomes("first", "second", RECIPES="1") == [[1, "hit"], [1, "hit"]]


class TestPage:
    def test_names(self):
        """The page names every test of this file that shows an outcome."""
        page = (ROOT / "doc" / "explanation" / "pure-recipes.md").read_text()
        tests = {name for kind in (TestCounted, TestPromised) for name in vars(kind) if name.startswith("test_")}
        assert tests == set(re.findall(r"`(test_\w+)`", page))
