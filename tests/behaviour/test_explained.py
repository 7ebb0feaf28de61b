"""What `kcl explain` names after a change: the calls or parts that were changed, whatever else a recipe is used for.

Two drivers use two recipes of one body, each with three sets of parameters and two dtypes. A first run of both fills
the cache. Then one thing is changed in a driver, it runs again, and every miss names that thing and nothing else.
"""

from __future__ import annotations

import json
import shutil
from typing import NamedTuple

import pytest
from harness import PLATFORMS, Child

HEAD = """
import sys

import numpy as np
import pyopencl as cl

import kcl

OFFSET = 1
"""
RECIPE = """
@kcl.kernel
def NAME(size, factor=1):
    import loopy as lp
    knl = lp.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<4}",
        f"out[i] = sum(j, {factor}*x[i] + j) + {OFFSET}",
        name="shared",
        lang_version=(2018, 2),
    )
    knl = lp.assume(knl, "n >= 4")
    knl = lp.split_iname(knl, "i", size, outer_tag="g.0", inner_tag="l.0")
    return knl
"""
TAIL = """
(platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
context = cl.Context(platform.get_devices())
queue = cl.CommandQueue(context)
for recipe in (first, second):
    for size, factor in ((8, 1), (16, 1), (8, 2)):
        for dtype in (np.float32, np.float64):
            recipe(size, factor=factor)(queue, x=np.ones(16, dtype))
"""
DRIVER = HEAD + RECIPE.replace("NAME", "first") + RECIPE.replace("NAME", "second") + TAIL
DRIVERS = ("one.py", "two.py")
VARIANTS = 6  # of a recipe: parameters times dtypes


class Mutation(NamedTuple):
    """A change of a driver's recipes, what is named then, and how many generator look-ups miss."""

    before: str
    after: str
    named: tuple[str, ...]
    missed: int = VARIANTS
    recipes: tuple[str, ...] = ("first", "second")

    def text(self):
        """Return the changed text of a driver."""
        texts = [RECIPE.replace("NAME", name) for name in ("first", "second")]
        changed = [
            text.replace(self.before, self.after) if name in self.recipes else text
            for name, text in zip(("first", "second"), texts, strict=True)
        ]
        if changed == texts:
            return DRIVER.replace(self.before, self.after)
        return HEAD + "".join(changed) + TAIL


MUTATIONS = {
    "a statement": Mutation("+ {OFFSET}", "+ 3 + {OFFSET}", ("call 1", "code first")),
    "a domain": Mutation("0<=j<4}", "0<=j<5}", ("call 1", "code first")),
    "a constant": Mutation("OFFSET = 1", "OFFSET = 2", ("call 1",)),
    "a name": Mutation('"shared"', '"common"', ("call 1", "code first")),
    "an assumption": Mutation('"n >= 4"', '"n >= 8"', ("call 2", "code first")),
    "a tag": Mutation('inner_tag="l.0"', 'inner_tag="unr"', ("call 3", "code first")),
    "a call more": Mutation(
        "    return knl", '    return lp.prioritize_loops(knl, "i_outer,j")', ("call 4", "code first")
    ),
    "a call less": Mutation('    knl = lp.assume(knl, "n >= 4")\n', "", ("call 2", "code first")),
    "the first recipe": Mutation("+ {OFFSET}", "+ 3 + {OFFSET}", ("call 1", "code first"), recipes=("first",)),
    "the second recipe": Mutation("+ {OFFSET}", "+ 3 + {OFFSET}", ("call 1",), recipes=("second",)),
    "a parameter": Mutation("(8, 1), (16, 1)", "(8, 1), (32, 1)", ("call 3", "parameter size"), 2),
    "a dtype": Mutation("np.float64)", "np.int32)", ("argument x",), 3),
}


class Drivers:
    """Two drivers in a folder, run by processes that share a cache."""

    def __init__(self, folder, platform_name) -> None:
        self.folder = folder
        self.platform_name = platform_name

    def run(self, child, number, text=DRIVER):
        """Run a driver with a text."""
        driver = self.folder / DRIVERS[number]
        driver.write_text(text)
        code = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__'); print(0)"
        return child.json(code, str(driver), PLATFORMS[self.platform_name])


@pytest.fixture(scope="module")
def filled(platform_name, tmp_path_factory):
    """Both drivers, and the processes of their first runs."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "child").mkdir()
    drivers, child = Drivers(folder, platform_name), Child(folder / "child")
    for number in range(len(DRIVERS)):
        drivers.run(child, number)
    return drivers, child


@pytest.mark.slow
@pytest.mark.parametrize("which", MUTATIONS)
def test_names_the_change(filled, child, which):
    """Each miss after a change names what was changed, for each set of parameters and each dtype."""
    drivers, before = filled
    mutation = MUTATIONS[which]
    shutil.copytree(before.cache, child.cache, symlinks=True)
    text = mutation.text()
    assert text != DRIVER
    drivers.run(child, 0, text)
    told = json.loads(child.run("from kcl.cli import main; main(['explain', '--json'])").stdout)
    generator = [one for one in told if one["layer"] == "generator"]
    assert {tuple(change["part"] for change in one["changes"]) for one in generator} == {mutation.named}
    assert sum(one["times"] for one in generator) == mutation.missed
    programs = [one for one in told if one["layer"] == "binary"]
    assert {change["part"] for one in programs for change in one["changes"]} <= {"source"}
    if which in BESIDE:
        assert [sum(map(_is_beside, one["changes"])) for one in programs] == [1] * len(programs)


BESIDE = ("a statement", "a constant", "the first recipe", "the second recipe")


def _is_beside(change):
    """Tell whether two programs differ in the statement that was changed, and in nothing else."""
    lines = [line for line in change["diff"] if line[:1] in "+-"]
    return len(lines) == 2 and all("out[" in line for line in lines)
