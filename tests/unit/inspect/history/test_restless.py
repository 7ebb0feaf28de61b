"""A kernel that is new in every run is told once; nothing is removed for it."""

from __future__ import annotations

import os
import sys
import time
import warnings

import pytest

import kcl
from kcl.base import process
from kcl.cache import layers
from kcl.inspect.history import journal, restless
from kcl.record import proofs

pytestmark = pytest.mark.one_platform
NUMBER = 0


@kcl.kernel
def recipe(factor=1):
    """What a global decides."""
    import loopy as lp

    knl = lp.make_kernel("{[i]: 0<=i<16}", f"y[i] = {NUMBER * factor}*x[i]", name="restless", lang_version=(2018, 2))
    return lp.split_iname(lp.add_dtypes(knl, {"x": "float32"}), "i", 4)


@kcl.kernel
def of_file():
    """What a file says."""
    arguments = [kcl.Array("x", "float32", 4, "inout")]
    return kcl.Source.from_file("one.cl", entry="one", arguments=arguments, global_size=4)


@pytest.fixture
def run(context, monkeypatch):
    """Go on as a new process with another number: returns its look-up, how many rows there are, and what was said.

    The process begins after the last one has ended, or beside it.
    """

    def run(number, kernel=recipe, beside=False, **parameters):
        if not beside:
            monkeypatch.setattr(process, "STARTED", time.time_ns())
        monkeypatch.setitem(globals(), "NUMBER", number)
        looks = []
        remove = kcl.add_hook(lambda event: looks.append(event.outcome))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            kernel(**parameters).source(context)
        remove()
        proofs.write()
        journal.flush()
        rows = sum(1 for _place in layers.generator().disk.scan())
        proofs.reset()
        layers.reset()
        return looks, rows, [one for one in said if "runs in a row" in str(one.message)]

    return run


def test_told_once(run):
    """The fifth run in a row tells the call that differs, at the user's line; every row stays."""
    runs = [run(number) for number in range(restless.TOLERATED + 5)]
    assert [looks for looks, _rows, _said in runs] == [["miss"]] * len(runs)
    assert [number for number, (_looks, _rows, said) in enumerate(runs, 1) if said] == [restless.TOLERATED]
    (told,) = runs[restless.TOLERATED - 1][2]
    assert told.category is kcl.CacheWarning
    assert told.filename == __file__
    for words in ("make_kernel", "3*x[i]", "4*x[i]", "time or a random number"):
        assert words in str(told.message)
    for number in range(len(runs)):
        assert run(number)[0] == ["hit"]


def test_parameters(run):
    """Kernels of one recipe with other parameters, in as many processes, are no runs of one kernel, and all stay."""
    runs = [run(1, factor=number) for number in range(3 * restless.TOLERATED)]
    assert [said for _looks, _rows, said in runs] == [[]] * len(runs)
    assert [run(1, factor=number)[0] for number in range(len(runs))] == [["hit"]] * len(runs)


def test_processes_at_once(run):
    """Processes that begin together and all miss are one run."""
    for number in range(3 * restless.TOLERATED):
        looks, _rows, said = run(number, beside=number > 0)
        assert (looks, said) == (["miss"], [])


def test_a_hit_ends_the_row(run):
    """A recipe that hits now and then is not told."""
    for number in range(restless.TOLERATED + 3):
        looks, _rows, said = run(number)
        assert (looks, said) == (["miss"], [])
        if number % 3 == 0:
            assert run(number)[0] == ["hit"]


def test_old_and_new_in_turns(run):
    """Who goes back to an earlier version between two edits sees it hit, and is told nothing."""
    for number in range(1, restless.TOLERATED + 3):
        run(0)
        assert run(number)[2] == []


def test_edited(run, monkeypatch, tmp_path):
    """A module that was edited since the last run explains the miss."""
    (tmp_path / "helper_of_restless.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "helper_of_restless", raising=False)
    __import__("helper_of_restless")
    for number in range(restless.TOLERATED + 3):
        later = time.time() + 10 + number
        os.utime(tmp_path / "helper_of_restless.py", (later, later))
        assert run(number)[2] == []


def test_opencl_of_a_file(run, monkeypatch, tmp_path):
    """A file of OpenCL C that is edited before each run is no restless recipe."""
    monkeypatch.chdir(tmp_path)
    for number in range(restless.TOLERATED + 3):
        code = f"kernel void one(global float *x) {{ x[get_global_id(0)] = {number}; }}"
        (tmp_path / "one.cl").write_text(code)
        looks, _rows, said = run(number, of_file)
        assert (looks[0], said) == ("miss", [])
