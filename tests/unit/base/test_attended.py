"""kcl.base.attended: modules that a finder attends are run by who attends them."""

import importlib
import importlib.resources
import importlib.util
import sys
from importlib.machinery import ModuleSpec

import pytest

from kcl.base.attended import Finder, Listener, run_modules


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Attend the package `wabble`; yields the modules that have run."""
    (tmp_path / "wabble").mkdir()
    (tmp_path / "wabble" / "__init__.py").write_text(
        "here = __spec__.loader; import wabble.inner\n"
    )
    (tmp_path / "wabble" / "inner.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []

    def run(module, loader):
        loader.exec_module(module)
        found.append(module)

    finder = run_modules(lambda name: name == "wabble", run)
    finder.install()
    yield found
    finder.remove()
    for name in ("wabble", "wabble.inner"):
        sys.modules.pop(name, None)


def test_told(told):
    """It is run once, its own modules are not attended."""
    import wabble

    assert told == [wabble]
    assert wabble.inner.__name__ == "wabble.inner"


def test_own_loader(told):
    """The package sees its own loader, also while it is imported, and finds its files by it."""
    import wabble

    assert wabble.here is wabble.__loader__
    assert importlib.resources.files("wabble").joinpath("inner.py").is_file()
    assert importlib.reload(wabble) is wabble
    assert told == [wabble, wabble]


def test_absent(told):
    """A package that does not exist is not found, as ever."""
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
    assert first not in sys.meta_path


@pytest.fixture
def heard(tmp_path, monkeypatch):
    """Listen to the package `wobble`; yields what was told."""
    (tmp_path / "wobble").mkdir()
    (tmp_path / "wobble" / "__init__.py").write_text(
        "import wobble.inner, sys\n1 / len(sys.argv)\n"
    )
    (tmp_path / "wobble" / "inner.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    listener = Listener(
        lambda name: "group" if name[:6] == "wobble" else "",
        lambda names: found.append((names, listener.is_under_way())),
        begins=lambda _group: found.append(listener.is_under_way()),
    )
    listener.install()
    yield found
    listener.remove()
    for name in ("wobble", "wobble.inner"):
        sys.modules.pop(name, None)


class TestListener:
    def test_told(self, heard):
        """It hears that the first import of a group begins, and the names of all once they ended; no reload."""
        import wobble

        assert heard == [False, (["wobble.inner", "wobble"], False)]
        assert type(wobble.__spec__) is ModuleSpec
        assert importlib.reload(wobble) is wobble
        assert not wobble.__spec__._initializing
        assert len(heard) == 2

    def test_failed(self, heard, monkeypatch):
        """An import that failed has ended, too."""
        monkeypatch.setattr(sys, "argv", [])
        for _time in range(2):
            with pytest.raises(ZeroDivisionError):
                importlib.import_module("wobble")
        assert heard == [
            *(False, (["wobble.inner", "wobble"], False)),
            *(False, (["wobble"], False)),
        ]
