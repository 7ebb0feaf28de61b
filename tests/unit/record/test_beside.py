"""What decides beside a record: what generates, by version and files, and what a program changed in loopy."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.record import beside

loopy = importlib.import_module("loopy")


class TestParts:
    def test_names(self):
        """kcl, Python, -O, loopy and what generates with it stand in every key; a kcl.Source names less."""
        names = [part.name for part in beside.parts(True)]
        assert names[:3] == ["kcl", "python", "optimize"]
        assert {
            f"distribution {name}" for name in ("loopy", "islpy", "pymbolic", "pyopencl", "numpy")
        } < {*names}
        assert len(names) == len({*names})
        source = [part.name for part in beside.parts(False)]
        assert source == ["kcl", "python", "distribution numpy", "distribution pyopencl"]

    def test_switches(self, monkeypatch):
        """What loopy reads from the environment while it generates is a part."""
        assert beside.switches() == []
        monkeypatch.setenv("_LOOPY_SKIP_ARG_CHECKS", "1")
        assert [part.name for part in beside.switches()] == ["argument checks"]


class TestNow:
    def test_nothing_changed(self, child):
        """If a program changed nothing, a key has the names of dtypes alone."""
        code = """
            import json, loopy, kcl.loopy
            from kcl.record import beside
            print(json.dumps([part.name for part in beside.state(beside.now(), True)]))
            """
        assert child.json(code) == ["dtype names"]

    def test_changed_generators(self, monkeypatch):
        """While something inside a generator is changed there is no key, and the reason names it."""
        before = beside.now()
        with monkeypatch.context() as patch:
            patch.setattr(loopy, "_DEFAULT_TARGET", loopy.CTarget)
            with pytest.raises(UnknownInput, match=r"loopy\._DEFAULT_TARGET was changed"):
                beside.now()
        assert beside.now() == before

    def test_structures(self, monkeypatch):
        """Structures that were registered with a name in C count by name and layout, also if their number stays."""
        import pyopencl.compyte.dtypes as dtypes

        before = dict(dtypes.TYPE_REGISTRY.dtype_to_name)
        found = []
        for name, fields in (("one", "i4"), ("two", "i4"), ("two", "f4")):
            named = {**before, np.dtype([("kcl_field", fields)]): name}
            monkeypatch.setattr(dtypes.TYPE_REGISTRY, "dtype_to_name", named)
            found.append(beside.structures())
        assert len({*found, ()}) == 4
        assert [part.name for part in beside.state(beside.Moment(structures=found[0]), True)] == [
            "state"
        ]
        assert beside.state(beside.Moment(structures=found[0])) == []

    @pytest.mark.parametrize("attribute", [None, "untag_inames"])
    def test_while_loopy_is_not_there(self, child, attribute):
        """Before loopy is imported, and while another thread imports it, nothing of it has changed."""
        code = f"""
            import json, sys, types
            import kcl.loopy
            from kcl.record import beside
            if {attribute!r}:
                sys.modules["loopy"] = types.ModuleType("loopy")
            print(json.dumps(beside.now()))
            """
        assert child.json(code) == [[], "", None]


def test_shared_parts():
    """The parts that every program shares are compared, and no other."""
    key = Key([*beside.parts(True), Part("record", "1" * 64), Part("argument x", "<f4")])
    mine, here = beside.compared(key)
    assert mine == here == Key(beside.parts(True))


def test_parts_of_elsewhere():
    """A part of elsewhere stands beside its value here; one that is absent here has none."""
    parts = [
        Part("optimize", "7"),
        Part("distribution nobody-has-this", "1.0"),
        Part("argument checks", "skipped"),
    ]
    mine, here = beside.compared(Key(parts))
    assert mine == Key(parts)
    assert dict(here.parts) == {
        "optimize": str(sys.flags.optimize),
        "distribution nobody-has-this": "absent",
    }


def test_only_where_loopy_generates(monkeypatch):
    """A switch of loopy counts only for keys of loopy."""
    monkeypatch.setenv("_LOOPY_SKIP_ARG_CHECKS", "1")
    for with_loopy in (True, False):
        mine, here = beside.compared(Key(beside.parts(with_loopy)))
        assert (mine != here) is with_loopy
