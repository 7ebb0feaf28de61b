"""kcl.foreign.table: the rows of foreign caches."""

import inspect
import re

from kcl.foreign import table
from kcl.foreign.table import ROWS


def test_facts():
    """The rows are sorted; each says what it is called, when its owner reads its variables, and where that was read."""
    assert list(ROWS) == sorted(ROWS)
    text = inspect.getsource(table)
    for name, row in ROWS.items():
        assert row.title
        assert row.read or not row.switches, name
        assert bool(row.places) == bool(row.own), name
        for pattern in (row.own, row.inside, row.entry):
            re.compile(pattern)
        before = text.partition(f'    "{name}": CacheRow(')[0].splitlines()[-1]
        assert before.startswith("    # "), name


def test_neighbours():
    """kcl's own driver caches are no neighbours; Mesa, which serves the whole desktop, is one."""
    near = {"comgr", "cuda", "intel", "loopy", "neo", "pocl", "pyopencl", "pyopencl-binary"}
    assert {name for name, row in ROWS.items() if not row.neighbour} == near
