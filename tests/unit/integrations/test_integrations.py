"""kcl.integrations: put in place at once or at the import, taken back, nested, and refused where kcl does not know."""

import sys
import types
import warnings

import pyopencl as cl
import pytest
from at_once import at_once

import kcl
from kcl import integrations


@pytest.fixture(autouse=True)
def uninstalled():
    yield
    while integrations.is_installed():
        kcl.uninstall()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `wobble` with one function, and a row for it whose replacement says so."""

    def write(body="def answer(): return 'own'"):
        folder = tmp_path / "wobble"
        folder.mkdir()
        (folder / "__init__.py").write_text(body)
        monkeypatch.syspath_prepend(str(tmp_path))
        module = types.ModuleType("wobble_in_kcl")
        module.NEEDED = ("answer",)
        module.replacements = lambda found: [(found, "answer", lambda: "kcl's")]
        monkeypatch.setitem(sys.modules, "wobble_in_kcl", module)
        monkeypatch.setattr(integrations, "TABLE", {"wobble": "wobble_in_kcl"})

    yield write
    sys.modules.pop("wobble", None)


class TestInstall:
    def test_at_import(self, package):
        """One that is not is changed as soon as it is, without a warning, and shows its own loader."""
        package()
        kcl.install()
        assert "wobble" not in sys.modules
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            import wobble

        assert wobble.answer() == "kcl's"
        assert type(wobble.__loader__).__module__.endswith("_frozen_importlib_external")
        assert wobble.__spec__.loader is wobble.__loader__
        kcl.uninstall()
        assert wobble.answer() == "own"

    def test_nested(self):
        """A package that is imported is changed at once; the last `uninstall` counts, and one too many is no error."""
        before = cl.Program.build
        kcl.install()
        kcl.install()
        kcl.uninstall()
        assert cl.Program.build.__wrapped__ is before
        kcl.uninstall()
        kcl.uninstall()
        assert cl.Program.build is before
        kcl.install()
        assert integrations.is_installed()

    def test_threads(self):
        """From threads, too: all install, all uninstall, and all is as before."""
        before = cl.Program.build

        def both(_number):
            for _ in range(50):
                kcl.install()
                kcl.uninstall()

        at_once(both)
        assert not integrations.is_installed()
        assert cl.Program.build is before

    def test_others_stay(self, monkeypatch):
        kcl.install()
        mine = cl.Program.build

        def build(*arguments):
            return mine(*arguments)

        monkeypatch.setattr(cl.Program, "build", build)
        kcl.uninstall()
        assert cl.Program.build is build
        monkeypatch.setattr(cl.Program, "build", mine.__wrapped__)

    def test_import_that_fails(self, package):
        package(body="1 / 0")
        kcl.install()
        with pytest.raises(ZeroDivisionError):
            import wobble  # noqa: F401
        assert "wobble" not in sys.modules


class TestRefused:
    @pytest.mark.parametrize("strict", ["", "hit"])
    def test_without_a_name(self, package, monkeypatch, strict):
        """A package without a name that is needed is left alone, as one warning says; an error with KCL_STRICT=hit."""
        monkeypatch.setenv("KCL_STRICT", strict)
        package("def other(): return 'own'")
        kcl.install()
        words = r"leaves wobble as it is.*this wobble has no answer"
        if strict:
            with pytest.raises(kcl.CacheMiss, match=words):
                import wobble
            return
        with pytest.warns(kcl.CacheWarning, match=words):
            import wobble
        assert not hasattr(wobble, "answer")

    def test_fault(self, package, monkeypatch):
        package()
        monkeypatch.setattr(sys.modules["wobble_in_kcl"], "replacements", lambda _found: 1 / 0)
        kcl.install()
        with pytest.warns(kcl.CacheWarning, match="division by zero"):
            import wobble
        assert wobble.answer() == "own"
