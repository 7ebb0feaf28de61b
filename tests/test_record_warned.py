"""loopy's warnings: given while a record is carried out, and again, in the same way, where it waits."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings

import pytest

from kcl.record import warned
from kcl.record.proofs import Warned
from kcl.record.record import Place

loopy = importlib.import_module("loopy")


def place(names=None):
    """Return a place in a program."""
    return Place("/users/driver.py", 7, {"__name__": "driver"} if names is None else names)


def heard(action, *filters):
    """Return (category, text, file, line) of what is heard under filters."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for one in filters:
            one()
        action()
    return [(one.category, str(one.message), one.filename, one.lineno) for one in found]


def collected(action):
    """Carry something out as the recorder does, give what it warned of, and return what can be given again."""
    found = []
    try:
        with warned.hearing() as found:
            action()
    finally:
        warned.give(found, place())
    return warned.kept(found)


def under(file, text="mine", category=UserWarning):
    """Warn as code in a file would."""
    return lambda: warnings.warn_explicit(text, category, file, 3)


class TestCollecting:
    def test_given_and_kept(self):
        """A warning reaches the user as it ends, and can be given again."""
        kept = []
        warning = under(loopy.kernel.creation.__file__, category=loopy.LoopyWarning)
        first = heard(lambda: kept.append(collected(warning)))
        assert first == [(loopy.LoopyWarning, "mine", loopy.kernel.creation.__file__, 3)]
        again = heard(lambda: warned.again(kept[0], place()))
        assert again == [(loopy.LoopyWarning, "mine", "loopy/kernel/creation.py", 3)]

    def test_code_of_the_user(self):
        """A warning that code of the user gave is given where it was, and keeps the record from being proven."""
        kept = []
        assert heard(lambda: kept.append(collected(under(__file__)))) == [(UserWarning, "mine", __file__, 3)]
        assert kept == [None]

    def test_other_threads(self):
        """What another thread warns of meanwhile reaches the user as ever, and is not collected."""
        kept = []

        def action():
            thread = threading.Thread(target=under("/users/other.py", "theirs"))
            thread.start()
            thread.join()

        assert heard(lambda: kept.append(collected(action))) == [(UserWarning, "theirs", "/users/other.py", 3)]
        assert kept == [()]

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
        """A warning that names whoever called names the program's line."""

        kept = []
        expected = [(UserWarning, "mine", "/users/driver.py", 7)]
        assert heard(lambda: kept.append(collected(under(warned.__file__)))) == expected
        assert kept == [(Warned("builtins", "UserWarning", "mine", "", 3),)]
        assert heard(lambda: warned.again(kept[0], place())) == expected

    def test_categories_that_are_not_known(self):
        """A warning of a class that a later process may not have keeps the record from being proven."""
        local = type("Local", (UserWarning,), {"__module__": "nowhere"})
        kept = []
        heard(lambda: kept.append(collected(under(loopy.kernel.creation.__file__, category=local))))
        assert kept == [None]

    def test_places_of_installation_do_not_count(self):
        """The file of a warning begins with a package's name."""
        kept = []
        heard(lambda: kept.append(collected(under(loopy.kernel.creation.__file__))))
        assert kept[0][0].file == "loopy/kernel/creation.py"

    def test_the_users_filters_are_as_before(self):
        """Collecting leaves the filters, and what shows warnings, as they were."""
        before = [*warnings.filters], warnings.showwarning
        collected(lambda: None)
        assert ([*warnings.filters], warnings.showwarning) == before


class TestAgain:
    SAID = (Warned("loopy.diagnostic", "LoopyWarning", "said", "loopy/kernel/creation.py", 5),)

    def test_filters_decide(self):
        """The filters of the user decide what is heard again, by category, module and as an error."""
        again = [lambda: warned.again(self.SAID, place())]
        assert len(heard(*again)) == 1
        assert heard(*again, lambda: warnings.simplefilter("ignore", loopy.LoopyWarning)) == []
        assert heard(*again, lambda: warnings.filterwarnings("ignore", module=r"loopy\.kernel\.creation$")) == []
        assert heard(*again, lambda: warnings.filterwarnings("ignore", message="other")) != []
        with pytest.raises(loopy.LoopyWarning):
            heard(*again, lambda: warnings.simplefilter("error"))

    def test_once_where_filters_say_once(self):
        """Under the default filters a line is warned of once, the user's line by the user's module."""
        said = (Warned("builtins", "UserWarning", "at the user", "", 1),)
        names: dict = {"__name__": "driver"}

        def twice():
            warned.again(said, place(names))
            warned.again(said, place(names))

        assert len(heard(twice, lambda: warnings.simplefilter("default"))) == 1
        assert "__warningregistry__" in names

    def test_categories_that_are_gone(self):
        """A category that this process does not have says nothing."""
        assert heard(lambda: warned.again((Warned("nowhere", "Gone", "x", "", 1),), place())) == []
        assert heard(lambda: warned.again((Warned("builtins", "print", "x", "", 1),), place())) == []
        assert heard(lambda: warned.again((Warned("builtins", "ValueError", "x", "", 1),), place())) == []

    def test_without_loopy(self, monkeypatch):
        """A category of loopy's is known without loopy."""
        monkeypatch.delitem(sys.modules, "loopy.diagnostic")
        ((kind, text, _file, _line),) = heard(lambda: warned.again(self.SAID, place()))
        assert (kind.__name__, kind.__module__, text) == ("LoopyWarning", "loopy.diagnostic", "said")


class TestInProcesses:
    def test_cold_and_warm_say_the_same(self, child):
        """The second run warns as the first one did, at the same lines, without loopy."""
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
