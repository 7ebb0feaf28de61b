"""Recipes that return equal units, as texts of modules that are imported again and again."""

import importlib.util
import itertools
import sys
import textwrap

import loopys_own  # noqa: F401  # the recipes find it loaded
import numpy as np

import kcl
from kcl.cache import layers

_numbers = itertools.count()

PLAIN = """
    import kcl

    @kcl.kernel(pure=True, version='1')
    def scaled(by=2):
        from loopys_own import loopy as lp

        knl = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {by}*x[i]", name="scaled", lang_version=(2018, 2))
        return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
"""
REFACTORED = """
    import kcl

    def split(knl, size):
        from loopys_own import loopy as lp

        return lp.split_iname(knl, "i", size, outer_tag="g.0", inner_tag="l.0")

    @kcl.kernel(pure=True, version='1')
    def scaled(by=2):
        from loopys_own import loopy as lp

        unit = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {by}*x[i]", name="scaled", lang_version=(2018, 2))
        return split(unit, 16)
"""


def importer(tmp_path, monkeypatch):
    """Return what imports a text as a new module, or as one that exists, from a file of its own."""

    def load(text, name=None):
        name = name or f"two_step_{next(_numbers)}"
        path = tmp_path / f"file_{next(_numbers)}.py"  # of one name Python might take old bytecode
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        layers.reset()
        return module

    return load


def looks():
    """Collect (outcome, reason) of the generator layer from now on."""
    seen = []
    kcl.add_hook(lambda event: event.layer == "generator" and seen.append((event.outcome, event.reason)))
    return seen


def scaled(queue, recipe, dtype=np.float32, **parameters):
    """Launch a recipe of these texts on ones."""
    _event, (y,) = recipe(**parameters)(queue, x=np.ones(4, dtype))
    return y.tolist()
