"""kcl.frontends.loopy.baseline: what modules held as they were taken."""

import sys
import textwrap
import types
import weakref

import pytest

from kcl.frontends.loopy import baseline
from kcl.frontends.loopy.baseline import MISSING, Holder, take


@pytest.fixture
def module(monkeypatch):
    """A module that was taken, with what in it may change: its tables."""
    found = types.ModuleType("taken")
    exec("NUMBER, TABLE, NAMES = 1, {'a': 1}, ['b']\ndef get(x=1): pass", vars(found))
    monkeypatch.setitem(baseline.state().taken, "taken", [])
    baseline.hear()
    return found


def tables(_thing, held):
    return [(key, "!", value) for key, value in held if isinstance(value, dict | list)]


class TestHolder:
    def test_differing(self, module):
        """It knows the names with other values, also those that are new or gone, by identity."""
        one, other = Holder("taken", module), Holder("taken.TABLE", module.TABLE)
        assert one.differing() == other.differing() == {}
        del module.NAMES
        module.NUMBER, module.more = True, 2
        module.TABLE["a"] = 1.0
        assert one.differing() == {"NUMBER": True, "more": 2, "NAMES": MISSING}
        assert other.differing() == {"a": 1.0}

    def test_is_nothing(self, module, monkeypatch):
        """Names of Python's, and a module below its package, are nothing; another module is something."""
        holder, below = Holder("taken", module), types.ModuleType("taken.below")
        assert holder.is_nothing("__warningregistry__", {})
        assert not holder.is_nothing("below", below)
        monkeypatch.setitem(sys.modules, "taken.below", below)
        assert holder.is_nothing("below", below)
        assert not holder.is_nothing(1, below)


class TestFunctions:
    def test_parts_before(self, module):
        """A function of a taken module is listed with its parts before the first change."""
        code = module.get.__code__
        module.get.__defaults__ = (2,)
        module.get.__code__ = (lambda x: x).__code__
        (holder,) = [one for one in baseline.told() if one.thing is module.get]
        assert holder.name == "taken.get"
        assert holder.held == {"__code__": code, "__defaults__": (1,), "__kwdefaults__": None}

    def test_bases(self, module):
        """A class of a taken module is listed with the bases that it had before other ones, and has them again."""
        exec("class A: pass\nclass B: pass\nclass C(A): pass", vars(module))
        before = module.C.__bases__
        module.C.__bases__ = (module.B,)
        (holder,) = [one for one in baseline.told() if one.thing is module.C]
        assert holder.name == "taken.C"
        assert holder.held == {"__bases__": before}
        assert holder.differing() == {"__bases__": (module.B,)}
        module.C.__bases__ = before
        assert not holder.differing()

    def test_a_class_without_a_hash(self, module):
        code = """
            class Meta(type):
                def __eq__(self, other):
                    return self is other
            class A: pass
            class B: pass
            class C(A, metaclass=Meta): pass
            """
        exec(textwrap.dedent(code), vars(module))
        module.C.__bases__ = (module.B,)
        assert [holder.name for holder in baseline.told() if holder.thing is module.C] == [
            "taken.C"
        ]

    def test_a_class_that_lies(self, module):
        """A class counts by what it has, whatever its class says."""
        code = """
            class Meta(type):
                __bases__ = property(lambda _: ())
                __module__ = property(lambda _: "other")
                __dict__ = property(lambda _: {})
            class A: pass
            class B: pass
            class C(A, metaclass=Meta): limit = 1
            """
        exec(textwrap.dedent(code), vars(module))
        held = Holder("taken.C", module.C)
        module.C.limit = 2
        assert held.differing() == {"limit": 2}
        vars(type)["__bases__"].__set__(module.C, (module.B,))
        (parts,) = [one for one in baseline.told() if one.thing is module.C]
        assert parts.held == {"__bases__": (module.A,)}
        assert parts.differing() == {"__bases__": (module.B,)}

    def test_things_that_are_gone(self, module):
        """A function that the program lets go is forgotten; each note counts."""
        before, noted = len(baseline.state().parts), baseline.state().noted
        for _time in range(3):
            function = types.FunctionType(module.get.__code__, vars(module))
            function.__defaults__ = (2,)
        assert baseline.state().noted == noted + 3
        assert len(baseline.state().parts) <= before + 2

    def test_others(self, module):
        """A function of another module is not listed, and none is kept."""
        module.__name__ = "other"
        module.get.__defaults__ = (2,)
        assert not any(one.thing is module.get for one in baseline.told())
        module.__name__ = "taken"
        exec("def other(): pass\nother.__defaults__ = ()", vars(module))
        gone = weakref.ref(module.other)
        del module.other
        assert gone() is None

    def test_is_told(self):
        """This Python tells of changes."""
        assert baseline.is_told()


def test_take(module):
    """The module comes first; what was found before is left out."""
    found = {}
    names = [one.name for one in take("taken", module, tables, found)]
    assert names == ["taken", "taken.TABLE!", "taken.NAMES!"]
    assert take("taken", module, tables, found) == []
