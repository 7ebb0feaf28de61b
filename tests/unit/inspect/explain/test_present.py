"""kcl.inspect.explain.present: what the layers hold now; test_handle.py has what Kernel.explain says of it."""

import pytest
from handle_recipes import add

pytestmark = pytest.mark.slow_platforms


def test_each_layer(context):
    said = add(sizes=(3,)).explain(context).splitlines()
    assert said[0] == "kernel add"
    assert said[1].startswith("  generator: miss: not in the cache (")
    assert "  binary: not looked up: its key needs the source" in said[-1]
