"""loopy's warnings: given while a record is carried out, and again, in the same way, where it waits."""

import functools
import importlib
import sys
import types
import warnings

import pytest

import kcl.loopy as lp
from kcl.code import WarningFact
from kcl.frontends.loopy import warned
from kcl.frontends.loopy.record import CallSite
from kcl.generate import distributions

loopy = importlib.import_module("loopy")


def place(names=None):
    """Return a place in a program."""
    code = compile("\n" * 6 + "pass", "/users/driver.py", "exec")
    names = {"__name__": "driver"} if names is None else names
    return CallSite(
        types.SimpleNamespace(f_code=code, f_lasti=len(code.co_code) - 2, f_globals=names)
    )


def heard(action, *filters):
    """Return (category, text, file, line) of what is heard under filters."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for one in filters:
            one()
        action()
    return [(one.category, str(one.message), one.filename, one.lineno) for one in found]


def collected(action, names=None):
    where, said = place(names), []
    try:
        with warned.hearing() as said:
            action()
    finally:
        warned.give(said, where)
    return warned.kept(said)


def heard_and_kept(warning, *more):
    """Return what is heard of a warning, and what can be given again."""
    kept = []
    found = heard(lambda: kept.append(collected(lambda: warnings.warn_explicit(*warning, *more))))
    return found, kept[0]


class TestCollecting:
    def test_given_and_kept(self):
        first, kept = heard_and_kept(("mine", loopy.LoopyWarning, loopy.__file__, 3), "loopy")
        assert [one[:2] for one in first] == [(loopy.LoopyWarning, "mine")]
        again = heard(lambda: warned.again(kept, place()))
        assert [one[:2] for one in again] == [one[:2] for one in first]

    def test_also_where_the_call_fails(self):
        """What loopy warned of before an error is given, and the error is raised."""

        def action():
            with pytest.raises(ValueError, match="x"):
                collected(failing)

        def failing():
            warnings.warn("before", loopy.LoopyWarning, stacklevel=1)
            raise ValueError("x")

        assert [text for _kind, text, _file, _line in heard(action)] == ["before"]

    def test_the_users_line(self):
        found, kept = heard_and_kept(("mine", UserWarning, warned.__file__, 1))
        assert found == [(UserWarning, "mine", "/users/driver.py", 7)]
        assert kept == (WarningFact("builtins", "UserWarning", "mine", "", 1),)
        assert heard(lambda: warned.again(kept, place())) == found

    def test_categories_that_are_not_known(self):
        """A warning of a class that a later process may not have keeps the record from being proven."""
        local = type("Local", (UserWarning,), {"__module__": "nowhere"})
        assert heard_and_kept(("x", local, __file__, 1))[1] is None

    def test_places_of_installation_do_not_count(self):
        """The file of a warning begins with a package's name."""
        _found, kept = heard_and_kept(("x", UserWarning, loopy.kernel.creation.__file__, 3))
        assert kept[0].file == "loopy/kernel/creation.py"

    def test_places_in_an_application(self, monkeypatch):
        """Code of an application that PyInstaller made names paths below the application's folder."""
        (folder,) = loopy.__path__
        monkeypatch.setattr(distributions, "ARCHIVE", folder.removesuffix("/loopy"))
        text = "import warnings; warnings.warn('as told')"
        code = compile(text, "loopy/schedule/__init__.py", "exec")
        (found,) = collected(lambda: exec(code, {"__name__": "loopy.schedule"}))
        assert found.file == "loopy/schedule/__init__.py"

    def test_the_users_filters_are_as_before(self):
        before = [*warnings.filters]
        collected(lambda: None)
        assert [*warnings.filters] == before


class TestAgain:
    SAID = (WarningFact("loopy.diagnostic", "LoopyWarning", "said", "loopy/kernel/creation.py", 5),)

    def test_filters_decide(self):
        """The filters of the user decide what is heard again, by category, module and as an error."""
        again = [lambda: warned.again(self.SAID, place())]
        assert len(heard(*again)) == 1
        for which in {"category": loopy.LoopyWarning}, {"module": r"loopy\.kernel\.creation$"}:
            quiet = functools.partial(warnings.filterwarnings, "ignore", **which)
            assert heard(*again, quiet) == []
        assert heard(*again, lambda: warnings.filterwarnings("ignore", message="other")) != []
        with pytest.raises(loopy.LoopyWarning):
            heard(*again, lambda: warnings.simplefilter("error"))

    def test_once_where_filters_say_once(self):
        """Under the default filters a line is warned of once, the user's line by the user's module."""
        said = (WarningFact("builtins", "UserWarning", "at the user", "", 1),)
        names: dict = {"__name__": "driver"}

        def twice():
            warned.again(said, place(names))
            warned.again(said, place(names))

        assert len(heard(twice, lambda: warnings.simplefilter("default"))) == 1
        assert "__warningregistry__" in names

    def test_categories_that_are_gone(self):
        """A category that this process does not have says nothing."""
        for kind in ("nowhere", "Gone"), ("builtins", "print"), ("builtins", "ValueError"):
            said = (WarningFact(*kind, "x", "", 1),)
            assert heard(lambda said=said: warned.again(said, place())) == []

    def test_without_loopy(self, monkeypatch):
        """A category of loopy's is known without loopy."""
        monkeypatch.delitem(sys.modules, "loopy.diagnostic")
        ((kind, text, _file, _line),) = heard(lambda: warned.again(self.SAID, place()))
        assert f"{kind.__module__}.{kind.__name__}" == "loopy.diagnostic.LoopyWarning"
        assert text == "said"


class TestInProcesses:
    def test_cold_and_warm_say_the_same(self, child):
        code = """
            import json, sys, warnings
            import kcl.loopy as lp
            def run():
                for _ in range(2):
                    lp.make_kernel("{[i]: 0<=i<16}", "a[i] = i")
            said = []
            for action in ("always", "default", "once", "ignore"):
                with warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter(action)
                    run()
                said.append([[one.category.__name__, str(one.message), one.lineno] for one in heard])
            print(json.dumps([said, "loopy" in sys.modules]))
        """
        (cold, imported), (warm, again) = child.json(code), child.json(code)
        assert (imported, again) == (True, False)
        assert warm == cold
        assert [len(one) for one in cold] == [2, 1, 1, 0]

    def test_code_generation_says_the_same(self, child):
        """What loopy warns of as it generates code is given on a miss and on a hit as without kcl: once an executor."""
        code = """
            import json, os, sys, warnings
            import numpy as np
            import pyopencl as cl
            if sys.argv[1] == "through kcl":
                import kcl
                kcl.install()
            import loopy as lp
            context = cl.create_some_context(interactive=False)
            queue = cl.CommandQueue(context)
            unit = lp.make_kernel("{[i]: 0<=i<16}", "y[0] = 2*x[i]", name="racing", lang_version=(2018, 2))
            executor = lp.tag_inames(unit, {"i": "l.0"}).executor(context)
            said = []
            for action in ("always", "default", "error"):
                with warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("ignore")
                    warnings.filterwarnings(action, category=lp.LoopyWarning)
                    executor(queue, x=np.ones(16, np.float32))
                said.append([[type(one.message).__name__, str(one.message), one.filename, one.lineno] for one in heard])
            print(json.dumps([said, "loopy" in sys.modules]))
        """
        right, _imported = child.json(code, "alone")
        cold, warm = child.json(code, "through kcl"), child.json(code, "through kcl")
        assert right[0][0][0] == "WriteRaceConditionWarning"
        assert cold == [right, True]
        assert warm == [right, False]


NAMES = sorted(warned.WARNINGS)


class TestCategories:
    @pytest.mark.parametrize("name", NAMES)
    def test_they_look_like_loopys(self, name):
        """Name, module and bases are those of loopy's class, which the face gives where loopy is imported."""
        mine, own = warned.WARNINGS[name], getattr(loopy.diagnostic, name)
        assert getattr(lp.diagnostic, name) is own
        assert (mine.__module__, mine.__name__) == (own.__module__, own.__name__)
        for other in NAMES:
            is_one = issubclass(own, getattr(loopy.diagnostic, other))
            for kind in (mine, own):
                assert issubclass(kind, warned.WARNINGS[other]) is is_one
            assert isinstance(own("x"), warned.WARNINGS[other]) is is_one
        assert issubclass(mine, UserWarning)
        assert not issubclass(DeprecationWarning, mine)

    def test_filters(self):
        """A filter that names the category of before the import matches loopy's warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", warned.WARNINGS["LoopyWarning"])
            with pytest.raises(loopy.LoopyWarning):
                warnings.warn("x", loopy.LoopyWarning, stacklevel=1)
            with pytest.raises(loopy.diagnostic.DirectCallUncachedWarning):
                warnings.warn("x", loopy.diagnostic.DirectCallUncachedWarning, stacklevel=1)
            warnings.warn("x", loopy.diagnostic.LoopyAdvisory, stacklevel=1)
