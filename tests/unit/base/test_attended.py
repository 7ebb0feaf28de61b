"""kcl.base.attended: modules that a finder attends are run by who attends them."""

import importlib
import importlib.resources
import importlib.util
import sys
from importlib.machinery import ModuleSpec

import pytest

from kcl.base.attended import Finder, Listener, run_modules


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that imports an inner module, and can be made to fail."""
    (tmp_path / "wabble").mkdir()
    (tmp_path / "wabble" / "inner.py").write_text("")
    (tmp_path / "wabble" / "__init__.py").write_text(
        "here = __spec__.loader; import wabble.inner, sys; 1 / len(sys.argv)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("wabble", "wabble.inner"):
        sys.modules.pop(name, None)


@pytest.fixture
def told(package):  # noqa: ARG001
    """Attend the package; yields the modules that have run."""
    found = []

    def run(module, loader):
        loader.exec_module(module)
        found.append(module)

    finder = run_modules(lambda name: name == "wabble", run)
    finder.install()
    yield found
    finder.remove()


def test_told(told):
    """It is run once, its own modules are not attended; it sees its own loader, and finds its files by it."""
    import wabble

    assert told == [wabble]
    assert wabble.inner.__name__ == "wabble.inner"
    assert wabble.here is wabble.__loader__
    assert importlib.resources.files("wabble").joinpath("inner.py").is_file()
    assert importlib.reload(wabble) is wabble
    assert told == [wabble, wabble]


def test_a_package_that_does_not_exist_is_not_found_as_ever(told):
    finder = run_modules(lambda name: name == "wubble", lambda *_: told.append(1))
    finder.install()
    try:
        with pytest.raises(ModuleNotFoundError, match="wubble"):
            importlib.import_module("wubble")
    finally:
        finder.remove()
    assert told == []


def test_removed(told):
    """Nothing is attended after it was removed, which may be asked twice."""
    finder = next(one for one in sys.meta_path if isinstance(one, Finder))
    finder.remove()
    finder.remove()
    importlib.import_module("wabble")
    assert told == []


def test_removed_while_others_are_asked(monkeypatch):
    """An import that is under way asks all finders, though one of them is removed meanwhile."""

    class Removing:
        def find_spec(self, *_search):
            first.remove()

    class Last:
        def find_spec(self, name, *_rest):
            return ModuleSpec(name, None) if name == "wubble" else None

    first = Finder(lambda _name: False, lambda _spec: None)
    monkeypatch.setattr(sys, "meta_path", [first, Removing(), Last(), *sys.meta_path])
    assert importlib.util.find_spec("wubble") is not None


@pytest.fixture
def heard(package):  # noqa: ARG001
    """Listen to the package; yields what was told."""
    found = []
    listener = Listener(
        lambda name: "group" if name[:6] == "wabble" else "",
        lambda names: found.append((names, listener.is_under_way())),
        begins=lambda _group: found.append(listener.is_under_way()),
    )
    listener.install()
    yield found
    listener.remove()


class TestListener:
    def test_told(self, heard):
        """It hears that the first import of a group begins, and the names of all once they ended; no reload."""
        import wabble

        assert heard == [False, (["wabble.inner", "wabble"], False)]
        assert type(wabble.__spec__) is ModuleSpec
        assert importlib.reload(wabble) is wabble
        assert not wabble.__spec__._initializing
        assert len(heard) == 2

    def test_an_import_that_failed_has_ended_too(self, heard, monkeypatch):
        monkeypatch.setattr(sys, "argv", [])
        for _time in range(2):
            with pytest.raises(ZeroDivisionError):
                importlib.import_module("wabble")
        assert heard == [
            *(False, (["wabble.inner", "wabble"], False)),
            *(False, (["wabble"], False)),
        ]
