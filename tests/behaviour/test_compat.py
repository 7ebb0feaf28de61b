"""The tools behind `make compat`: how loopy's programs are rewritten, and how its tests are sorted."""

import sys

import pytest
from harness import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import compat_page
import compat_source
import compat_unchanged


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """Let the face have no modules, and loopy two names."""
    monkeypatch.setattr(compat_source, "face_has_modules", lambda: False)
    monkeypatch.setattr(compat_source, "public_names", lambda: frozenset({"LoopyError", "Reduction"}))


class TestTurned:
    """Imports of loopy become imports of the face."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("import loopy as lp\n", "import kcl.loopy as lp\n"),
            ("import loopy\n", "import kcl.loopy as loopy\n"),
            ("import os, loopy as lp\n", "import os; import kcl.loopy as lp\n"),
            ("import loopy.options\n", "import kcl.loopy as loopy\n"),
            ("if 1:\n    from loopy import auto  # why\n", "if 1:\n    from kcl.loopy import auto  # why\n"),
            ("from loopy.diagnostic import LoopyError\n", "from kcl.loopy import LoopyError\n"),
            ("from loopy.x import Reduction, y\n", "from kcl.loopy import Reduction; from loopy.x import y\n"),
            ("x = 'import loopy'\n", "x = 'import loopy'\n"),
            ("from .loopy import a\n", "from .loopy import a\n"),
        ],
    )
    def test_each_form(self, before, after):
        """Whatever its form; strings, comments and other modules stay."""
        assert compat_source.turned(before) == after

    def test_with_modules_of_the_face(self, monkeypatch):
        """Where the face has loopy's modules they are imported from there, over as many lines as before."""
        monkeypatch.setattr(compat_source, "face_has_modules", lambda: True)
        assert compat_source.turned("from loopy.x import (\n    a,\n)\n") == "from kcl.loopy.x import (\n    a,\n)\n"

    def test_blocks_of_a_page(self):
        """Only lines of blocks are turned."""
        page = "import loopy\n\n    >>> import loopy as lp\n    ...     from loopy import a\n"
        turned = "import loopy\n\n    >>> import kcl.loopy as lp\n    ...     from kcl.loopy import a\n"
        assert compat_source.rewritten_page(page) == turned


class TestMoved:
    """Classes that inherit from loopy's."""

    def test_into_the_tests_that_use_them(self):
        """They move from the head into the tests that use them; the others do not import loopy for them."""
        text = "class A(lp.B):\n    x = 1\n\ndef test_a():\n    assert A\n\ndef test_b():\n    assert 1\n"
        moved = "\ndef test_a():\n    class A(lp.B):\n        x = 1\n    assert A\n\ndef test_b():\n    assert 1\n"
        assert compat_source.moved(text) == moved

    def test_not_in_programs(self):
        """A program without tests stays as it is."""
        text = "class A(lp.B):\n    pass\n\ndef main():\n    A()\n"
        assert compat_source.moved(text) == text


class TestCategory:
    """A test is sorted by the most demanding thing that it asks."""

    @pytest.mark.parametrize(
        ("asked", "category"),
        [
            ([("make", "make_kernel", 1), ("transform", "split_iname", 2), ("unit", "__call__", 1)], "launch"),
            ([("make", "make_kernel", 1), ("question", "auto_test_vs_ref", 1)], "compare"),
            ([("make", "make_kernel", 1), ("question", "generate_code_v2", 1), ("unit", "__str__", 1)], "print"),
            ([("make", "make_kernel", 1), ("raises", "f: LoopyError", 1)], "error"),
            ([("make", "make_kernel", 1), ("raises", "f: LoopyError", 1), ("unit", "args", 1)], "inside"),
            ([("make", "make_kernel", 1), ("inside", "loopy.symbolic", 1)], "inside"),
            ([("other", "GlobalArg", 1)], "none"),
        ],
    )
    def test_category(self, asked, category):
        """From making, transforming and launching only, to looking inside."""
        assert compat_page.category(asked) == category


class TestPage:
    """What fails with kcl is told, and nothing of the machine."""

    def record(self, outcome, **more):
        return {"outcome": outcome, "loopy": False, "by": {}, "made": [], "seconds": 1.0, "asked": [], **more}

    def test_broken(self):
        """A test that passes without kcl and not with it is named; one that fails without is not."""
        failed = self.record("failed", error="in /home/someone/x.py: `no`")
        runs = {"asked": {"a": self.record("passed"), "b": failed}, "second": {"a": failed, "b": failed}}
        (line,) = compat_page.broken({"suite": runs})
        assert line == "`a`, second run: failed: `in x.py: 'no'`"
        assert "\n- suite: `b`" in compat_page.summary({"suite": runs})

    def test_share(self):
        """Tests count that pass without kcl and leave loopy alone in the second run."""
        asked = self.record("passed", asked=[("make", "make_kernel", 1)])
        second = {"a": self.record("passed"), "b": self.record("passed", loopy=True)}
        text = compat_page.summary({"suite": {"asked": {"a": asked, "b": asked}, "second": second}})
        assert "| only make, transform and launch | 2 | 2 | 1 | 50% |" in text


class TestUnchanged:
    """The page about programs as they are keeps what it says of suites that did not run."""

    def test_page(self):
        """The page is what the tool makes of it where nothing ran."""
        before = compat_unchanged.part(compat_unchanged.PAGE)
        assert compat_unchanged.table({}, before)[1:] == before[1:]

    def test_example(self, child):
        """An example that fails says how."""
        run = compat_unchanged.example
        command = [sys.executable, "-c", "import no_such_module"]
        failed = "status 1, ModuleNotFoundError: No module named 'no_such_module'"
        assert run(command, child.directory, child.environment()) == failed
        assert run([sys.executable, "-c", ""], child.directory, child.environment()) == "passed"
