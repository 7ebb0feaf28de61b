"""kcl.generate.protocol: what a unit leaves open by default."""

import importlib.util
import sys
import types

import numpy as np
import pytest

from kcl.cache.key import Part
from kcl.generate import protocol
from kcl.generate.protocol import Unit, common_parts, structure_parts


def test_defaults():
    """A unit leaves nothing open, packs nothing and may always be generated; it says what its code is itself."""
    unit = Unit()
    assert unit.open({}) == ((), (), (), {})
    assert unit.packed == {}
    assert unit.follows({}, ())
    unit.refuse_if_forbidden("kernel")
    assert unit.described() == []
    for ask in (unit.identity, lambda: unit.arguments, lambda: unit.code("kernel", {})):
        with pytest.raises(NotImplementedError):
            ask()


def test_parts():
    """kcl, Python, what a front end adds, and the distributions that generate stand in every key."""
    also = (Part("optimize", "0"),)
    names = [part.name for part in common_parts(("pyopencl", "numpy"), also)]
    assert names[:3] == ["kcl", "python", "optimize"]
    assert names[3:] == ["distribution numpy", "distribution pyopencl"]


def test_structures(monkeypatch):
    """Structures that were registered with a name in C count by name and layout, also if their number stays."""
    import pyopencl.compyte.dtypes as dtypes

    before = dict(dtypes.TYPE_REGISTRY.dtype_to_name)
    assert structure_parts(()) == []
    found = []
    for name, fields in (("one", "i4"), ("two", "i4"), ("two", "f4")):
        named = {**before, np.dtype([("kcl_field", fields)]): name}
        monkeypatch.setattr(dtypes.TYPE_REGISTRY, "dtype_to_name", named)
        (part,) = structure_parts()
        found.append(part)
    assert len({*found}) == 3
    assert {part.name for part in found} == {"state"}


def test_a_registry_that_is_being_imported(monkeypatch):
    """A thread that imports pyopencl's registry of dtypes has registered nothing yet."""
    module = types.ModuleType("pyopencl.compyte.dtypes")
    module.__spec__ = importlib.util.spec_from_loader(module.__name__, None)
    module.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert protocol.registered() == ((), "")
