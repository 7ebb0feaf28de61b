"""kcl.inspect.explain.present: what the layers hold now; test_handle.py has what Kernel.explain says of it."""

import os

import pytest
from handle_recipes import add

from kcl.cache import layers
from kcl.cache.lead import Lead
from kcl.cache.lookup import find
from kcl.generate.stage import CallValues

pytestmark = pytest.mark.slow_platforms


def test_maker(context):
    """It names the process that makes the entry now."""
    kernel = add(sizes=(3,))
    look = find(kernel._line.generate, CallValues({}))
    with Lead("add") as lead:
        lead.take(layers.generator(), kernel._line.generate.together(CallValues({}), look))
        assert f"\n    process {os.getpid()} makes it now\n" in kernel.explain(context)
    assert "makes it now" not in kernel.explain(context)
