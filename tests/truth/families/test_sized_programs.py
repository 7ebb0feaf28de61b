"""Programs with sizes: each call gives the numbers of numpy, and the same numbers and errors whatever ran before it.

A call is made alone, without a cache and with a handle of its own; then after the calls before it, in a first and in a
second process; after all calls of all programs; and bound.
"""

import json

import numpy as np
import pytest
import sized_programs
from harness import PLATFORMS

SAMPLE = ("fixes", "is_tuned_and_fixes", "overflows_in_the_general_variant", "is_called_wrongly")
WAYS = {"in order": "in order", "again": "in order", "after": "after", "bound": "bound"}


def ran(child, platform_name, order, titles, **variables):
    """Return what each call gives, by its program and number."""
    words = (sized_programs.__file__, PLATFORMS[platform_name], order, *titles)
    done = child.python(*words, **variables)
    assert done.returncode == 0, done.stderr
    found = {}
    for title, number, outcome in map(json.loads, done.stdout.splitlines()):
        found[title, number] = outcome
    return found


def _is_error(outcome):
    return bool(outcome) and isinstance(outcome[0], str)


@pytest.mark.one_platform
@pytest.mark.parametrize(
    "titles",
    [
        pytest.param(SAMPLE, id="sample"),
        pytest.param((), id="all", marks=pytest.mark.slow),
    ],
)
def test_programs(child, platform_name, titles):
    """Named or not, a size decides alone which variant a call takes."""
    alone = ran(child, platform_name, "alone", titles, KCL_NO_CACHE="1")
    for title in titles or sized_programs.PROGRAMS:
        for number, (_given, want) in enumerate(sized_programs.PROGRAMS[title].calls):
            outcome = alone[title, number]
            if want is None:
                assert _is_error(outcome), (title, number, outcome)
            else:
                assert np.array_equal(outcome[0], want), (title, number, outcome)
    for way, order in WAYS.items():
        found = ran(child, platform_name, order, titles)
        different = {one: found[one] for one in alone if found[one] != alone[one]}
        if way == "bound":  # it refuses in words of its own
            different = {one: said for one, said in different.items() if not _is_error(said)}
        assert not different, way
