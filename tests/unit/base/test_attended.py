"""kcl.base.attended: modules that a finder attends are run by who attends them."""

import functools
import importlib
import importlib.resources
import sys
import types

import pytest

from kcl.base import attended
from kcl.base.attended import Finder


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

    finder = Finder(lambda name: name == "wabble", run)
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
    finder = Finder(lambda name: name == "wubble", lambda *_: told.append(1))
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


def plain():
    """Return nothing."""


def of_kcl(function):
    """Return a function of a module of kcl's, around another."""
    made = types.FunctionType(plain.__code__, {"__name__": "kcl.somewhere"})
    return functools.update_wrapper(made, function)


def test_is_of_kcl():
    """The module's globals tell; an attribute that a decorator copies does not."""
    assert attended.is_of_kcl(of_kcl(plain))
    assert not attended.is_of_kcl(plain)
    assert not attended.is_of_kcl(functools.wraps(of_kcl(plain))(lambda: None))
    assert not attended.is_of_kcl(print)


def test_below_kcl():
    """What stands below any number of kcl's functions is found; one that stands for nothing is itself."""
    assert attended.below_kcl(of_kcl(of_kcl(plain))) is plain
    assert attended.below_kcl(plain) is plain
    alone = types.FunctionType(plain.__code__, {"__name__": "kcl.somewhere"})
    assert attended.below_kcl(alone) is alone


def test_uncounted():
    """A warning below the function names the line of its caller."""
    function = types.FunctionType(plain.__code__, {})
    attended.uncounted(function)
    assert function.__code__.co_filename == "<frozen importlib._bootstrap>"
