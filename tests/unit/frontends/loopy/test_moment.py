"""kcl.frontends.loopy.moment: what a program changed in loopy, and the parts that every key of a unit has."""

import sys

import pytest

from kcl.cache.key import Key, Part
from kcl.frontends.loopy import moment
from kcl.generate.protocol import common_parts


class TestParts:
    def test_names(self):
        """kcl, Python, -O, loopy and what generates with it stand in every key."""
        names = [part.name for part in moment.shared()]
        assert names[:3] == ["kcl", "python", "optimize"]
        generating = ("loopy", "islpy", "pymbolic", "pyopencl", "numpy")
        assert {f"distribution {name}" for name in generating} < {*names}
        assert len(names) == len({*names})

    def test_switches(self, monkeypatch):
        """What loopy reads from the environment while it generates is a part."""
        assert moment.parts() == [*moment.shared()]
        monkeypatch.setenv("_LOOPY_SKIP_ARG_CHECKS", "1")
        assert moment.parts()[-1].name == "argument checks"


class TestNow:
    def test_nothing_changed(self, child):
        """If a program changed nothing, a key has the names of dtypes alone."""
        code = """
            import json, loopy, kcl.loopy
            from kcl.frontends.loopy import moment
            print(json.dumps([part.name for part in moment.state(moment.now(), True)]))
            """
        assert child.json(code) == ["dtype names"]

    def test_structures(self):
        """Registered structures count where a record asks for them."""
        there = moment.Moment(structures=(("one", "layout"),))
        assert [part.name for part in moment.state(there, True)] == ["state"]
        assert moment.state(there) == []

    @pytest.mark.parametrize("is_begun", [False, True])
    def test_while_loopy_is_not_there(self, child, is_begun):
        """Before loopy is imported nothing of it is watched or has changed; nor while another thread imports it."""
        code = f"""
            import importlib.util, json, sys, types
            import kcl, kcl.loopy
            from kcl.frontends.loopy import moment
            if {is_begun}:
                sys.modules["loopy"] = module = types.ModuleType("loopy")
                module.__spec__ = importlib.util.spec_from_loader("loopy", None)
                module.__spec__._initializing = True
                module.untag_inames = print
            print(json.dumps([moment.now(), moment.loaded(), "kcl.frontends.loopy.insides" in sys.modules]))
            """
        assert child.json(code) == [[[], "", None], None, is_begun]


def test_shared_parts():
    """The parts that every program shares are compared, and no other."""
    key = Key([*moment.shared(), Part("record", "1" * 64), Part("argument x", "<f4")])
    mine, here = moment.compared(key)
    assert mine == here == Key(moment.shared())


def test_parts_of_elsewhere():
    """A part of elsewhere stands beside its value here; one that is absent here has none."""
    nobody = "distribution nobody-has-this"
    key = Key([Part("optimize", "7"), Part(nobody, "1.0"), Part("argument checks", "skipped")])
    mine, here = moment.compared(key)
    assert mine == key
    assert dict(here.parts) == {"optimize": str(sys.flags.optimize), nobody: "absent"}


def test_only_where_loopy_generates(monkeypatch):
    monkeypatch.setenv("_LOOPY_SKIP_ARG_CHECKS", "1")
    for parts in (moment.shared(), common_parts(("numpy", "pyopencl"))):
        mine, here = moment.compared(Key(parts))
        assert (mine != here) is (parts == moment.shared())
