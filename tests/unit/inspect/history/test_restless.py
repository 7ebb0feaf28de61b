"""A recipe that is new in every run is told once, and does not fill the cache."""

from __future__ import annotations

import itertools
import warnings

import pytest

import kcl
from kcl.cache import layers
from kcl.inspect.history import journal, restless
from kcl.record import proofs

pytestmark = pytest.mark.one_platform
NUMBER = 0


@kcl.kernel
def recipe():
    """What a global decides."""
    import loopy as lp

    knl = lp.make_kernel("{[i]: 0<=i<16}", f"y[i] = {NUMBER}*x[i]", name="restless", lang_version=(2018, 2))
    return lp.split_iname(lp.add_dtypes(knl, {"x": "float32"}), "i", 4)


@pytest.fixture
def run(context, monkeypatch):
    """Go on as a new process with another number: returns its look-up, how many rows there are, and what was said."""
    started = itertools.count()

    def run(number):
        monkeypatch.setattr(restless, "_STARTED", next(started))
        monkeypatch.setitem(globals(), "NUMBER", number)
        looks = []
        remove = kcl.add_hook(lambda event: looks.append(event.outcome))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            recipe().source(context)
        remove()
        proofs.write()
        journal.flush()
        rows = sum(1 for _place in layers.generator().disk.scan())
        proofs.reset()
        layers.reset()
        return looks, rows, [one for one in said if "runs in a row" in str(one.message)]

    return run


def test_told_once_and_few_rows(run):
    """The fifth run in a row tells the call that differs, at the user's line; of the rows the last few are kept."""
    runs = [run(number) for number in range(restless.TOLERATED + restless.KEPT + 3)]
    assert [looks for looks, _rows, _said in runs] == [["miss"]] * len(runs)
    assert [number for number, (_looks, _rows, said) in enumerate(runs, 1) if said] == [restless.TOLERATED]
    (told,) = runs[restless.TOLERATED - 1][2]
    assert told.category is kcl.CacheWarning
    assert told.filename == __file__
    for words in ("make_kernel", "3*x[i]", "4*x[i]", "time or a random number"):
        assert words in str(told.message)
    assert runs[-1][1] == runs[-2][1] == runs[-3][1]
    assert run(len(runs) - 1)[0] == ["hit"]


def test_a_hit_ends_the_row(run):
    """A recipe that hits now and then is not told."""
    for number in range(restless.TOLERATED + 3):
        looks, _rows, said = run(number)
        assert (looks, said) == (["miss"], [])
        if number % 3 == 0:
            assert run(number)[0] == ["hit"]
