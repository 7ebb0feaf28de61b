"""kcl.generate.beside: what generates, by version and files, and what a program registered."""

from __future__ import annotations

import numpy as np

from kcl.cache.key import Part
from kcl.generate import beside


def test_parts():
    """kcl, Python, what a front end adds, and the distributions that generate stand in every key."""
    also = (Part("optimize", "0"),)
    names = [part.name for part in beside.parts(("pyopencl", "numpy"), also)]
    assert names == [
        "kcl",
        "python",
        "optimize",
        "distribution numpy",
        "distribution pyopencl",
    ]


def test_structures(monkeypatch):
    """Structures that were registered with a name in C count by name and layout, also if their number stays."""
    import pyopencl.compyte.dtypes as dtypes

    before = dict(dtypes.TYPE_REGISTRY.dtype_to_name)
    assert beside.structures(()) == []
    found = []
    for name, fields in (("one", "i4"), ("two", "i4"), ("two", "f4")):
        named = {**before, np.dtype([("kcl_field", fields)]): name}
        monkeypatch.setattr(dtypes.TYPE_REGISTRY, "dtype_to_name", named)
        (part,) = beside.structures()
        found.append(part)
    assert len({*found}) == 3
    assert {part.name for part in found} == {"state"}
