"""kcl.frontends.loopy.generating: loopy's own disk caches while it generates for kcl."""

import importlib

from kcl.frontends.loopy import generating


def test_quiet():
    """They are off while loopy may run, and as before in any other block."""
    loopy = importlib.import_module("loopy")
    before, found = loopy.CACHING_ENABLED, []
    for may_run in (False, True):
        with generating.quiet(may_run):
            found.append(loopy.CACHING_ENABLED)
    assert found == [before, False]
    assert loopy.CACHING_ENABLED is before
