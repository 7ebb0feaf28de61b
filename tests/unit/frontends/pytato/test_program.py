"""kcl.frontends.pytato: programs of a small language of arrays find their code; each run is a process of its own."""

import importlib.util
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from harness import PLATFORMS, run_command

HERE = Path(__file__).parent
CALLS = ["generate_loopy", "scaled"]
REAL = ("pytato", "arraycontext", "meshmode")
MISSING = [name for name in REAL if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.one_platform


class Program:
    """Runs cases of the driver; its runs share a cache and a copy of the language."""

    def __init__(self, folder, platform_name):
        self.cache, self.language = folder / "cache", folder / "language"
        self.variables = {
            "KCL_CACHE_DIR": str(self.cache),
            "PYOPENCL_CTX": PLATFORMS[platform_name],
        }
        shutil.copytree(HERE / "language", self.language)

    def __call__(self, *request, **environment):
        return self.each(request, **environment)[0]

    def each(self, *requests, **environment):
        """Run cases one after the other: the last in a process of its own, those before forked from one import.

        So the last one has other addresses and another hash seed: a key with either in it misses.
        """
        *forked, last = requests
        joined = [word for request in forked for word in ("then", *request)][1:]
        said = "".join(
            self.python(
                HERE / "driver.py", self.language, *words, **{"PYTHONHASHSEED": seed, **environment}
            )
            for seed, words in (("1", joined), ("2", last))
            if words
        )
        return [*map(json.loads, said.splitlines())]

    def python(self, *words, **environment):
        variables = {**os.environ, **self.variables, **environment}
        found = run_command([sys.executable, *words], env=variables)
        assert found.returncode == 0, found.stderr
        return found.stdout

    def edit(self, package, before, after):
        file = self.language / package / "__init__.py"
        file.write_text(file.read_text().replace(before, after))


@pytest.fixture
def run(tmp_path, platform_name):
    return Program(tmp_path, platform_name)


def copy_rows(one, other):
    """Copy the generator layer: a helper may still work at the other files of a cache."""
    shutil.copytree(one / "pytools", other / "pytools")


@pytest.fixture(scope="module")
def first(tmp_path_factory, platform_name):
    """The cache that the first run of `transformed` leaves; a run elsewhere with a copy carries nothing out."""
    folders = map(tmp_path_factory.mktemp, ("first", "other"))
    first, other = (Program(folder, platform_name) for folder in folders)
    assert first("transformed")["result"] == out(scale=2.0)
    copy_rows(first.cache, other.cache)
    assert other("transformed", PYTHONHASHSEED="3")["calls"] == []
    return first.cache


@pytest.fixture
def run_again(run, first):
    """The program after that run."""
    copy_rows(first, run.cache)
    return run


def out(factor=2.0, data=1.0, scale=1.0):
    return {"out": [one * scale + factor * one * data * scale for one in range(4)]}


@pytest.mark.parametrize(
    ("case", "result", "warnings"),
    [
        ("plain", out(), []),
        ("named", ["launched", out(scale=2.0)], []),
        ("device", out(), ["driver.py"]),
        ("warned", out(), ["__init__.py"]),
        ("twice", [out(2.0), out(3.0), out(2.0)], []),
    ],
)
def test_the_second_run_carries_nothing_out_and_warns_as_the_first(run, case, result, warnings):
    first, second = run(case, PYTHONHASHSEED="1"), run(case, PYTHONHASHSEED="2")
    assert first["result"] == second["result"] == result
    assert first["calls"][:1] == CALLS[:1]
    assert second["calls"] == []
    assert second["stats"]["misses"] == 0
    assert first["warnings"] == second["warnings"]
    assert [one[2] for one in first["warnings"]] == warnings


def test_a_hit_has_the_data_of_its_own_graph(run):
    _first, found = run.each(("data", 2), ("data", 5))
    assert found["calls"] == []
    assert found["result"] == out(data=5.0)


@pytest.mark.parametrize(
    ("case", "is_keyed"),
    [
        *[("plain", True), ("transformed", True), ("constant", True)],
        *[("patched", False), ("own_function", False)],
    ],
)
def test_another_value_is_another_result_and_what_no_key_holds_is_carried_out(run, case, is_keyed):
    runs = run.each(*((case, factor) for factor in (2, 3, 2)))
    first, other, again = [one["result"] for one in runs]
    assert first == again != other
    if case == "constant":
        assert [first, other] == [out(scale=4.0), out(scale=6.0)]
    calls = [] if is_keyed else CALLS
    assert sorted(runs[0]["calls"]) == CALLS[: len(runs[0]["calls"])] != []
    assert sorted(runs[2]["calls"]) == calls
    assert bool(runs[2]["made"]) is not is_keyed


def test_code_that_was_changed_in_a_package_counts_by_its_content(run_again):
    first, second = run_again.each(*[("code", 3)] * 2)
    assert [first["calls"], second["calls"]] == [CALLS, []]
    assert first["result"] == second["result"] == out(scale=2.0)


def test_what_was_put_back_counts_no_more(run_again):
    found = run_again("put_back")
    assert found["result"] == [out(scale=10.0), out(scale=2.0)]
    assert found["calls"] == CALLS  # those of the first


def test_an_edited_package_makes_other_units_though_a_foreign_cache_is_warm(run, tmp_path):
    keep = tmp_path / "foreign"
    found = run.each(*(("cached", factor, keep) for factor in (2, 2, 4, 4)))
    assert [one["result"] for one in found[::2]] == [out(scale=2.0), out(scale=4.0)]
    assert [one["calls"] for one in found[1::2]] == [[], []]
    run.edit("arraycontext", "EXTRA = 1 ", "EXTRA = 3 ")
    found, again = run.each(*[("cached", 2, keep)] * 2)
    assert found["result"] == out(scale=6.0)
    assert [found["calls"], again["calls"]] == [CALLS, []]


def test_a_miss_names_the_node_and_the_package_that_changed(run):
    def explained_after(case, *values):
        for value in values:
            run(case, value)
        return run.python("-m", "kcl", "explain", "launched")

    of_places = explained_after("placed", 2, 3)
    assert "(made at driver.py:10)" in of_places
    found = [f"#, {number})" in of_places for number in (7.0, 8.0, 9.0)]
    assert found == [False, True, False]
    words = "graph: Scaled: ((), (Axis(())), #, 2.0) -> ((), (Axis(())), #, 3.0)"
    assert words in explained_after("plain", 2, 3)
    run.edit("pytato", "__all__", "# a comment\n__all__")
    run.edit("arraycontext", "EXTRA = 1 ", "EXTRA = 3 ")
    words = "call with its packages: pytato unknown: its files changed"
    assert words in explained_after("plain", 4)


def test_the_rows_of_a_large_graph_are_small(run, tmp_path):
    assert run("large")["result"] == out(factor=99.0)
    (database,) = tmp_path.glob("cache/pytools/*generated*.sqlite")
    with closing(sqlite3.connect(database)) as rows:
        sizes = [size for (size,) in rows.execute("SELECT length(key_value) FROM dict")]
    assert max(sizes) <= 40_000


def test_a_number_that_changes_at_each_step_fills_no_cache(run):
    runs = run.each(*(("steps", first) for first in (2, 2, 4, 3)))
    for first, told in zip((2, 2, 4, 3), runs, strict=True):
        assert told["result"] == [out(float(one)) for one in range(first, first + 6)]
    outcomes = [[one["stats"][name] for name in ("misses", "hits", "bypassed")] for one in runs]
    # The third run keeps 5 and 6; the last finds what the others kept.
    assert outcomes == [[3, 0, 3], [0, 3, 3], [2, 1, 3], [0, 4, 2]]
    words = "a number of this one changes: 2.0, 3.0, 4.0, ... in Scaled; make it an argument"
    assert [told["report"].count(words) for told in runs] == [1, 1, 0, 0]


def test_the_number_that_changes_has_the_line_that_made_its_node(run):
    words = "7.0, 9.0, 11.0, ... in Scaled (made at driver.py:10); make it an argument"
    assert run("moving", 7)["report"].count(words) == 1


@pytest.mark.parametrize("ask", [(), ("-", "ask")])
def test_a_program_has_what_its_call_got(run, ask):
    asked, launched = ("outputs,owner", 2, *ask), ("outputs,owner", 2)
    # a program that was asked is launched by the unit
    *found, _first, second = run.each(asked, asked, launched, launched)
    for outputs, owner in (one["result"] for one in found):
        assert outputs[:: len(ask) or 1] == [{"out": [0.0, 2.0, 4.0, 6.0]}] * 2
        assert owner == [[out(scale=2.0)] * 3, ["launched"] * (3 if ask else 0)]
    assert second["calls"] == []


@pytest.mark.parametrize("ask", [(), ("-", "ask")])
def test_the_order_of_outputs_decides_nothing(run, ask):
    right = {name: [one * factor for one in range(4)] for factor, name in enumerate("abcdef", 1)}
    for seed in range(3):
        told = run("parted", 2, *ask, PYTHONHASHSEED=str(seed))
        assert told["result"][0] == right
        assert told["calls"] == (CALLS[:1] if ask or not seed else [])


def test_a_unit_that_cannot_be_made_as_it_was_is_an_error(run):
    first, second = run.each(*[("too_late",)] * 2)
    assert first["result"] == "launched"
    error = second["result"]
    assert "the program has changed since" in error
    assert "KCL_NO_CACHE=graph" in error
    assert run("too_late", KCL_NO_CACHE="graph")["result"] == "launched"


def test_a_transformation_that_changes_its_owner_is_carried_out(run):
    for told in run.each(*[("counting",)] * 2):
        assert told["result"] == [[out(scale=one) for one in (2.0, 3.0, 4.0)], 4.0]
        assert told["calls"].count("scaled") == 3


def test_a_transformation_that_reads_a_dictionary_on_disk_is_carried_out(run, tmp_path):
    found = run.each(*(("tuned", factor, tmp_path / "factors") for factor in (2, 3, 5, 2)))
    assert all("scaled" in told["calls"] for told in found)
    assert [told["result"] for told in found] == [out(scale=one) for one in (1.0, 3.0, 5.0, 5.0)]


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
def test_a_transformation_that_communicates_is_never_skipped(run):
    found = run.each(*[("ranks",)] * 3)
    assert [told["numbers"] for told in found] == [[1, 1], [0, 1], [0, 1]]
    for told in found:
        assert told["result"] == [out(scale=2.0)] * 2
        assert "it asks a communicator for 'allreduce'" in told["report"]


def test_data_go_with_the_program_also_while_a_unit_lives_that_is_made_later(run):
    found = run.each(("released",), ("freed",), ("freed",), ("released",))
    for told, carried_out in zip(found[::3], (CALLS, []), strict=True):
        before, *unit = told["result"]
        assert before == [True, *carried_out]
        assert unit == ["launched", out(data=3.0, scale=2.0), CALLS]
    assert [told["result"] for told in found[1:3]] == [True, True]


def test_data_go_with_the_program_where_only_its_transformation_is_new(run):
    _data, released = run.each(("data", 3), ("released",))
    assert released["result"][0][0] is True


def test_an_error_comes_where_it_comes_without_kcl(run):
    found = run.each(*[("refused",)] * 2)
    assert [one["result"] for one in found] == ["no transformation for launched"] * 2


def test_a_question_makes_the_program(run):
    assert run.each(*[("asked",)] * 2)[1]["result"] == [
        [True, out()],
        [],
        "launched",
        out(),
        CALLS[:1],
    ]


@pytest.mark.parametrize("layers", ["graph", "generator", "1"])
def test_a_switch_stops_the_look_up_of_graphs_alone(run_again, layers):
    found = run_again("transformed", KCL_NO_CACHE=layers)
    assert found["calls"] == CALLS
    assert found["result"] == out(scale=2.0)
    if layers == "graph":
        assert found["stats"]["hits"] == 1


def test_packages_may_be_imported_before_kcl(run):
    first, second = run.each(*[("transformed", 2, "late")] * 2)
    assert first["result"] == second["result"] == out(scale=2.0)
    assert [first["calls"], second["calls"]] == [CALLS, []]


def test_uninstall_puts_pytatos_function_back(run):
    assert [one["calls"] for one in run.each(*[("uninstalled",)] * 2)] == [CALLS[:1]] * 2


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        is_equal = np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
        return one.dtype == other.dtype and is_equal
    return one == other


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_each_graph_has_the_result_that_it_has_without_kcl(tmp_path):
    told = []
    for number, options in enumerate(([], ["--kcl"], ["--kcl", "--reversed"])):
        file, caches = tmp_path / str(number), tmp_path / ("kcl" if options else "plain")
        command = [sys.executable, HERE / "real_cases.py", file, *options]
        variables = {"XDG_CACHE_HOME": str(caches), "PYTHONHASHSEED": str(number)}
        subprocess.run(command, env={**os.environ, **variables}, check=True, timeout=600)
        told.append(pickle.loads(file.read_bytes()))
    plain, cold, warm = told
    assert len(plain["results"]) >= 140
    raised = [one for one in plain["results"].values() if isinstance(one, str) and ": " in one]
    assert raised == []
    for found in (cold, warm):
        wrong = [
            name for name, one in plain["results"].items() if not same(one, found["results"][name])
        ]
        assert wrong == []
    assert warm["stats"]["misses"] == 0
    assert len({*warm["made"]}) < 20 < len({*cold["made"]})
