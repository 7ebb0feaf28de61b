"""No wrong hit: whatever a recipe's outcome depends on is changed, one thing at a time, in whole processes on PoCL.

One cold process fills the caches for the selected rows. A second one shows that each of them hits as long as nothing
is changed. Then each row changes its thing, and a process with kcl's caches must compute what one without any cache
computes. Recipes run in every process.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import pytest
from harness import Child
from truth_tree import Call, Change, Edit, Env, Link, Python, Remove, Said, Tree, Write

from kcl.drivers.pocl import client


class Row(NamedTuple):
    """A change, and what it must lead to."""

    change: Change
    layer: str = "generator"  # where the work must be done again
    same: bool = False  # the number computed does not tell: the code differs in another way
    bypass: bool = False  # no key can hold it: the work is done every time


def same(change: Change, layer: str = "generator") -> Row:
    """Make a row whose numbers stay."""
    return Row(change, layer, same=True)


def program(change: Change) -> Row:
    """Make a row whose program is built again, from text that the generator layer knows."""
    return Row(change, "binary")


L = "loops.py"
VERSION = "from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401"
PREAMBLE = """
def preamble(_info):
    yield ("10_factor", "static float generated(float x) { return 8*x; }")
home.preamble = preamble
"""

# by module; "recipe" or "recipe: which of its rows"
TABLE: dict[str, dict[str, Change | Row]] = {
    "programs": {
        "header": program(Edit("kernels/header.h", "2", "3")),
        "header_nested": program(Edit("kernels/inner.h", "2", "3")),
        "header_angled": program(Edit("kernels/angled.h", "2", "3")),
        "header_shadowed": program(Write("first/shadowed.h", "#define FACTOR 3\n")),
        "header_nested_shadowed": program(Write("first/shadowed_too.h", "#define FACTOR 3\n")),
        "header_same_second": program(Edit("kernels/same_second.h", "2", "3", same_second=True)),
        "header_macro": program(Edit("kernels/macro.h", "2", "3")),
        "header_macro: shadowed": program(Write("first/macro.h", "#define FACTOR 3\n")),
        "header_macro_option": program(Edit("kernels/option.h", "2", "3", same_second=True)),
        "header_macro_either": program(Edit("kernels/or.h", "2", "3")),
        "header_put_together": Row(Edit("kernels/together.h", "2", "3"), "binary", bypass=True),
        "header_asked": program(Write("first/asked.h", "")),
        "header_perhaps": program(Write("first/perhaps.h", "#define FACTOR 3\n")),
        "header_in_comment": program(Edit("kernels/commented.h", "2", "3")),
        "header_continued": program(Edit("kernels/continued.h", "2", "3")),
        "header_conditional": program(Edit("kernels/conditional.h", "2", "3")),
        "header_link": program(Link("kernels/link.h", "targets/two.h")),
        "header_order": Edit("programs.py", "[FIRST, KERNELS, HERE]", "[KERNELS, FIRST, HERE]"),
        "header_order: first one gone": program(Remove("first/order.h")),
        "build_option": Edit("programs.py", "-DFACTOR=3", "-DFACTOR=4"),
        "build_option_order": Edit("programs.py", "-DFACTOR=4", "-DFACTOR=5"),
        "forced_option": program(Env(PYOPENCL_BUILD_OPTIONS="-DFORCED=3")),
        "pocl_option": program(Env(POCL_EXTRA_BUILD_FLAGS="-DEXTRA=3")),
        "source_text": same(Edit("programs.py", "FP_CONTRACT OFF", "FP_CONTRACT ON")),
        "source_text: PoCL's work-group method": same(Env(POCL_WORK_GROUP_METHOD="loops"), "binary"),
    },
    "loops": {
        "loop_body": Edit(L, '"loop_body", "3"', '"loop_body", "4"'),
        "loop_open": Edit(L, "4*x[i]", "5*x[i]"),
        "loop_parameter": Call("factor=7"),
        "loop_split": same(Call("width=16")),
        "loop_transformed": same(Edit("transformations.py", "WIDTH = 16", "WIDTH = 8")),
        "loop_callable": Edit("callables.py", "7*x", "8*x"),
        "loop_preamble_generator": Edit(L, "5*x", "6.5f*x"),
        "loop_preamble_generator: replaced": Call(before=PREAMBLE),
        "loop_preamble": Edit(L, "6*x", "6.5f*x"),
        "loop_name": same(Call("name='another_name'")),
        "loop_options": same(Edit(L, '"return_dict": False', '"return_dict": True')),
        "loop_options: in place": same(Call(after="home.OPTIONS['allow_fp_reordering'] = False")),
        "loop_build_options": Edit(L, "(2*x)", "(3*x)"),
        "loop_target": same(Call("width=4096")),
        "loop_target_options": same(Edit("transformations.py", "use_int8_for_bool=True", "use_int8_for_bool=False")),
        "loop_language_version": same(Edit("versioned.py", VERSION, "LOOPY = 0")),
        "loop_own_version": same(Call(before="home.LOOPY_USE_LANGUAGE_VERSION_2018_2 = (2018, 2)")),
        "loop_argument_checks": same(Env(_LOOPY_SKIP_ARG_CHECKS="1")),
        # Not noise: loopy leaves out the argument checks of its invokers under -O.
        "loop_optimised": same(Python("-O")),
        "loop_domain": same(Call("domain='{[i]: 0<=i and i+1<=n}'")),
        "loop_symbolic": Edit(L, "2 + 3", "2 + 4"),
    },
}
ROWS = [(module, name) for module, rows in TABLE.items() for name in rows]


def row_of(module: str, name: str) -> Row:
    found = TABLE[module][name]
    return found if isinstance(found, Row) else Row(found)


def launch(module: str, name: str, change: Change | None = None) -> list[str]:
    """Return what the driver is to do for a row, its change made or not."""
    recipe = name.partition(":")[0]
    change = change or Change()
    return [module, recipe, change.arguments or "", change.before, change.after]


class Filled(NamedTuple):
    """A tree whose caches know the recipes of some rows, with what the cold and an unchanged process said."""

    tree: Tree
    rows: list[tuple[str, str]]
    cold: Said
    again: Said

    def bypassed(self, layer: str) -> list[str]:
        """Name the recipes that a layer bypasses in every run."""
        rows = [(name, row_of(module, name)) for module, name in self.rows]
        return sorted({name.partition(":")[0] for name, row in rows if row.bypass and row.layer == layer})


def fill(folder: pathlib.Path, rows: list[tuple[str, str]]) -> Filled:
    """Run the recipes of rows cold, and once more; what nothing changed must hit."""
    tree = Tree(Child(folder))
    recipes = [launch(*each) for each in dict.fromkeys((module, name.partition(":")[0]) for module, name in rows)]
    # also fills the caches below kcl of the processes without kcl's
    without = tree.start(recipes, Change(), cached=False)
    cold = tree.ask(recipes)
    assert client.idle(str(tree.child.cache / "kcl"), 120)
    assert without.said().numbers == cold.numbers
    filled = Filled(tree, rows, cold, tree.ask(recipes, KCL_PROMOTE="off"))
    assert not cold.errors
    assert filled.again.numbers == cold.numbers
    return filled


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """The tree of this file, with the rows that are selected."""
    selected = [one.callspec.params for one in request.session.items if hasattr(one, "callspec")]
    chosen = {(params["module"], params["name"]) for params in selected if params.keys() >= {"module", "name"}}
    return fill(tmp_path_factory.mktemp("truth"), [row for row in ROWS if row in chosen] or ROWS)


class Ran(NamedTuple):
    """What a process with kcl's caches said after a change, beside what is right."""

    found: Said
    now: list[float]  # by launch
    right: list[float]
    before: list[float]  # by launch that the change is about


def mutated(module: str, name: str, filled: Filled) -> Ran:
    """Apply a row's change and launch its recipe, with kcl's caches and without any."""
    row, tree, recipe = row_of(module, name), filled.tree, name.partition(":")[0]
    row.change.apply(tree)
    job = [launch(module, name, row.change)]
    running = tree.start(job, row.change, cached=True, KCL_PROMOTE="off")
    before = filled.cold.numbers[recipe]
    without = tree.start(job, row.change, cached=False).said()
    assert without.errors == {}
    right = without.numbers[recipe]
    found = running.said()
    assert found.errors == {}
    now = found.numbers[recipe]
    if row.change.after:
        before = now[:1]
    if not row.same:
        assert right[-1:] != before, "the change makes no difference to the number: choose another"
    return Ran(found, now, right, before)


class TestMutations:
    def test_every_recipe_hits_as_long_as_nothing_changes(self, filled: Filled) -> None:
        """They all run, none is bypassed, and nothing is built but what no key of a program can hold."""
        again = filled.again
        assert {event[2] for event in again.events if event[0] == "generator"} == {"hit"}
        assert again.built == len(filled.bypassed("binary"))
        assert sorted(again.ran) == sorted({name.partition(":")[0] for _module, name in filled.rows})

    @pytest.mark.parametrize(("module", "name"), ROWS)
    @pytest.mark.slow_cases(8)
    def test_mutation(self, module: str, name: str, filled: Filled) -> None:
        """The number is that of a process without caches; a text that another recipe gave may be found."""
        row, recipe = row_of(module, name), name.partition(":")[0]
        try:
            ran = mutated(module, name, filled)
        finally:
            filled.tree.restore()
        assert ran.now == ran.right
        assert "bypass" not in ran.found.outcomes("generator")
        if row.layer == "binary":
            assert ran.found.outcomes("binary")[-1] == ("bypass" if row.bypass else "miss"), ran.found.reason("binary")
            assert ran.found.built == 1
        assert set(ran.found.ran) == {recipe}
