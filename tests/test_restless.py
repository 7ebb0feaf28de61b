"""A recipe that is new in every run is told once, and does not fill the cache."""

from __future__ import annotations

import pytest

from conftest import PLATFORMS
from kcl.history import restless

pytestmark = pytest.mark.one_platform
DRIVER = """
import json
import sys

import pyopencl as cl

import kcl
from kcl import layers
from kcl.history import restless

restless.KEPT = 2

@kcl.kernel
def recipe():
    import loopy as lp
    knl = lp.make_kernel("{[i]: 0<=i<16}", f"y[i] = {NUMBER}*x[i]", name="restless", lang_version=(2018, 2))
    return lp.split_iname(lp.add_dtypes(knl, {"x": "float32"}), "i", 4)

(platform,) = [one for one in cl.get_platforms() if one.name == sys.argv[1]]
NUMBER = sys.argv[2]
looks = []
kcl.add_hook(lambda event: looks.append(event.outcome))
recipe().source(cl.Context(platform.get_devices()[:1]))
kcl.flush()
print(json.dumps([looks, sum(1 for place in layers.generator().disk.scan())]))
"""


@pytest.fixture
def run(child, platform_name):
    """Run the driver with a number; returns its look-ups, how many rows there are, and what it said."""

    def run(number):
        done = child.run(DRIVER, PLATFORMS[platform_name], str(number))
        assert done.returncode == 0, done.stderr
        import json

        return *json.loads(done.stdout.splitlines()[-1]), done.stderr

    return run


def test_told_once_and_few_rows(run):
    """The fifth run in a row tells the call that differs; of the rows only the last few are kept."""
    said, rows = [], []
    for number in range(restless.TOLERATED + 4):
        looks, count, errors = run(number + 2)
        assert looks == ["miss"]
        said.append(errors)
        rows.append(count)
    (told,) = [(number, text) for number, text in enumerate(said, 1) if "runs in a row" in text]
    assert told[0] == restless.TOLERATED
    assert "make_kernel" in told[1]
    assert "5*x[i]" in told[1]
    assert "6*x[i]" in told[1]
    assert rows[-1] == rows[-2] == rows[-3]
    looks, _count, _errors = run(number + 2)
    assert looks == ["hit"]


def test_a_hit_ends_the_row(run):
    """A recipe that hits now and then is not told."""
    for number in range(10, 8 + restless.TOLERATED):
        assert run(number)[0] == ["miss"]
    for number in range(1, 4):
        assert run(number)[0] == ["miss"]
        looks, _count, errors = run(number)
        assert looks == ["hit"]
        assert "runs in a row" not in errors
