"""kcl.generate.miss: code from a recipe's result on a miss."""

from __future__ import annotations

import numpy as np
from loopys_own import loopy as lp

import kcl
from kcl.cache import layers
from kcl.cache.lead import Lead
from kcl.cache.lookup import obtain
from kcl.frontends.pure import PureResult
from kcl.generate.declarations import RecipeCall
from kcl.generate.stage import CallValues, Generate


def tripled():
    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", name="tripled", lang_version=(2018, 2))


def test_a_recipe_runs_once(child):
    """A recipe of which nobody can tell that it is loopy's runs once a miss, and sees each parameter once."""
    code = """
        import json
        import numpy as np
        import pyopencl as cl
        import kcl

        ran = []

        @kcl.kernel(pure=True, version='1')
        def scaled(factors):
            import importlib

            ran.append(1)
            lp = importlib.import_module("loopy")
            return lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {next(factors)}*x[i]", lang_version=(2018, 2))

        queue = cl.CommandQueue(cl.create_some_context(interactive=False))
        event, (y,) = scaled(iter([2]))(queue, x=np.ones(3, dtype=np.float32))
        print(json.dumps([len(ran), float(y[0])]))
        """
    assert child.json(code, PYOPENCL_CTX="portable") == [1, 2.0]


def test_a_switch_that_only_the_unit_tells(monkeypatch, looks):
    """The switches of the unit's front end count, though the code of a pure recipe names another front end."""
    monkeypatch.setenv("LOOPY_NO_CACHE", "1")
    layers.reset()

    def either(is_source=False):
        return kcl.Source("", entry="f", arguments=[]) if is_source else tripled()

    result = PureResult(RecipeCall("either", either, {}, (), "1", pure=True))
    for _ in range(2):
        with Lead("either") as lead:
            obtain(Generate(result), CallValues({"x": np.dtype(np.float32)}), lead)
    assert [look.outcome for look in looks] == ["bypass", "bypass"]
    assert all(look.reason.startswith("off: LOOPY_NO_CACHE") for look in looks)
