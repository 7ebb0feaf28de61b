"""What a pure recipe promises: three processes, with a change before the last one.

The page doc/explanation/pure-recipes.md names these tests. A stale hit is a number of before the change.
"""

import base64
import hashlib
import os
import re
import shutil

import pytest
from harness import ROOT, Child

DRIVER = """
import importlib, json, sys
import numpy as np, pyopencl as cl
import kcl

looks, found = [], {}
kcl.add_hook(lambda event: event.layer == "generator" and looks.append(event.outcome))
context = cl.Context(cl.get_platforms()[-1].get_devices()[:1])
queue = cl.CommandQueue(context)
for name in sys.argv[1:]:
    module, recipe = name.split(".")
    _event, (x,) = getattr(importlib.import_module(module), recipe)()(queue, x=np.zeros(1, np.int32))
    found[name] = [int(x[0]), looks.pop()]
print(json.dumps(found))
"""
COMMON = """
import numpy as np

import kcl

pure = kcl.kernel(pure=True, version="1")


def source(number):
    return kcl.Source(
        f"kernel void f(global int *x) {{ x[0] = {number}; }}",
        entry="f",
        arguments=[kcl.Array("x", np.int32, "(1,)", "inout")],
        global_size="(1,)",
    )
"""
HEAD = "import os\n\nimport kcl\nfrom common import pure, source\n\n\n"
# Modules of recipes; THIS is 1, and 2 in the last run.
RECIPES = {
    "version": "@kcl.kernel(pure=True, version='THIS')\ndef recipe():\n    return source(open('number').read(2))\n",
    "helper": "def helper():\n    return THIS\n\n\n@pure\ndef recipe():\n    return source(helper())\n",
    "global": "LEVEL = THIS\n\n\n@pure\ndef recipe():\n    return source(LEVEL)\n",
    "class": "class Level:\n    value = THIS\n    def get(self):\n        return self.value\n\n\n"
    "@pure\ndef recipe():\n    return source(Level().get())\n",
    "imported": "@pure\ndef recipe():\n    from far import NUMBER\n    return source(NUMBER)\n",
    "installed": "import tuner\n\n\n@pure\ndef recipe():\n    return source(tuner.number())\n",
    "noise": "# THIS is a comment\n@pure\ndef recipe():\n    return source(1)\n",
    "elsewhere": "@pure\ndef recipe():\n    return source(1)\n",
    "file": "@pure\ndef recipe():\n    return source(open('number').read())\n",
    "variable": "@pure\ndef recipe():\n    return source(os.environ['NUMBER'])\n",
    "state": "import library\nlibrary.LEVEL = int(open('number').read())\n\n\n"
    "@pure\ndef recipe():\n    return source(library.number())\n\n\n"
    "@pure\ndef named():\n    return source(library.LEVEL)\n",
    "effects": "SEEN = []\n\n\ndef seen():\n    return globals()['SE' + 'EN']\n\n\n"
    "@pure\ndef recipe():\n    seen().append(1)\n    return source(1)\n\n\n"
    "@pure\ndef second():\n    return source(len(seen()))\n",
}
COUNTED = [[1, "miss"], [1, "hit"], [2, "miss"]]
PROMISED = [[1, "miss"], [1, "hit"], [1, "hit"]]


def install(packages, name, text):
    """Install a distribution of one module, with the record that an installer writes."""
    about = packages / f"{name}-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    (packages / f"{name}.py").write_text(text)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "RECORD").write_text(
        f"{name}.py,sha256={digest},{len(text)}\n{about.name}/METADATA,,\n"
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Number and outcome of each recipe in a first, a second and a changed run."""
    child = Child(tmp_path_factory.mktemp("pure"))
    packages, found = child.directory / "site-packages", []
    install(packages, "library", "LEVEL = 1\n\n\ndef number():\n    return LEVEL\n")
    names = [*(f"{name}.recipe" for name in RECIPES), "state.named", "effects.second"]
    for this, place in (("1", "project"), ("1", "project"), ("2", "moved")):
        project = child.directory / place
        shutil.rmtree(child.directory / "project", ignore_errors=True)
        project.mkdir()
        texts = {name: HEAD + text for name, text in RECIPES.items()}
        texts |= {"driver": DRIVER, "common": COMMON, "far": "from farther import NUMBER\n"}
        texts["farther"] = "NUMBER = THIS\n"
        for name, text in texts.items():
            (project / f"{name}.py").write_text(text.replace("THIS", this))
        install(packages, "tuner", f"def number():\n    return {this}\n")
        (child.directory / "number").write_text(this)
        options = {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]),
        }
        found.append(child.script(project / "driver.py", *names, NUMBER=this, **options))
    return {name.removesuffix(".recipe"): [run[name] for run in found] for name in names}


class TestCounted:
    """What counts beside version and parameters: the files of the recipe's code."""

    def test_version(self, told):
        """Another version is a miss, and the recipe runs."""
        assert told["version"] == COUNTED

    @pytest.mark.parametrize("what", ["helper", "global", "class"])
    def test_code(self, told, what):
        """A helper, a global or a class that changes in the recipe's file is a miss."""
        assert told[what] == COUNTED

    def test_module_that_the_body_imports(self, told):
        """A module of the project that the file imports counts, and what that imports."""
        assert told["imported"] == COUNTED

    def test_comment(self, told):
        """The text of the file counts, its comments included."""
        assert told["noise"] == [[1, "miss"], [1, "hit"], [1, "miss"]]

    def test_place(self, told):
        """The place of the project, and files that nobody imports, do not count."""
        assert told["elsewhere"] == PROMISED


class TestPromised:
    """What the promise covers: kcl does not look, so the version has to change with it."""

    def test_installed_package(self, told):
        """An installed package does not count, unless it generates code."""
        assert told["installed"] == PROMISED

    def test_file(self, told):
        """A file that the recipe reads does not count."""
        assert told["file"] == PROMISED

    def test_variable(self, told):
        """A variable of the environment does not count."""
        assert told["variable"] == PROMISED

    def test_state_of_a_library(self, told):
        """What a program sets in a library while it runs does not count."""
        assert told["state"] == told["state.named"] == PROMISED

    def test_effects(self, told):
        """The body does not run on a hit, so it fills no registry for another recipe."""
        assert told["effects"] == told["effects.second"] == PROMISED


class TestPage:
    def test_names(self):
        """The page names every test of this file that shows an outcome."""
        page = (ROOT / "doc" / "explanation" / "pure-recipes.md").read_text()
        tests = {
            name
            for kind in (TestCounted, TestPromised)
            for name in vars(kind)
            if name.startswith("test_")
        }
        assert tests == set(re.findall(r"`(test_\w+)`", page))
