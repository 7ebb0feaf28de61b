"""What a pure recipe promises: three processes, with a change before the last one.

The page doc/explanation/pure-recipes.md names these tests. A stale hit is a number of before the change.
"""

import os
import re
import shutil

import packages
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


def install(site, name, text):
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(text)
    packages.describe(site, name)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Number and outcome of each recipe in a first, a second and a changed run."""
    child = Child(tmp_path_factory.mktemp("pure"))
    site, found = child.directory / "site-packages", []
    install(site, "library", "LEVEL = 1\n\n\ndef number():\n    return LEVEL\n")
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
        install(site, "tuner", f"def number():\n    return {this}\n")
        (child.directory / "number").write_text(this)
        path = os.pathsep.join([str(site), str(ROOT)])
        options = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path}
        found.append(child.script(project / "driver.py", *names, NUMBER=this, **options))
    return {name.removesuffix(".recipe"): [run[name] for run in found] for name in names}


# What counts beside version and parameters is the files of the recipe's code. What else changes is left to the promise.
OUTCOMES = {
    **dict.fromkeys(("version", "helper", "global", "class", "imported"), COUNTED),
    "noise": [[1, "miss"], [1, "hit"], [1, "miss"]],
    **dict.fromkeys(("elsewhere", "installed", "file", "variable"), PROMISED),
    **dict.fromkeys(("state", "state.named", "effects", "effects.second"), PROMISED),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome(told, name):
    assert told[name] == OUTCOMES[name]


def test_page():
    """The page names every outcome."""
    page = (ROOT / "doc" / "explanation" / "pure-recipes.md").read_text()
    named = set(re.findall(r"`test_outcome\[(\w+)\]`", page))
    assert named == {name.partition(".")[0] for name in OUTCOMES}
