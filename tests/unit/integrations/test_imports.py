"""kcl.integrations.imports: who waits for a package is told when it is there."""

from __future__ import annotations

import importlib
import importlib.resources
import sys

import pytest

from kcl.integrations.imports import Imports


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Wait for the package `wabble`; yields what was told."""
    (tmp_path / "wabble").mkdir()
    (tmp_path / "wabble" / "__init__.py").write_text("here = __spec__.loader; import wabble.inner\n")
    (tmp_path / "wabble" / "inner.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    finder = Imports({"wabble": "row"}, lambda row, module: found.append((row, module)))
    yield found
    finder.remove()
    for name in ("wabble", "wabble.inner"):
        sys.modules.pop(name, None)


def test_told(told):
    """It is told once, with its row, after the package's own code; the package's modules are not waited for."""
    import wabble

    assert told == [("row", wabble)]
    assert wabble.inner.__name__ == "wabble.inner"


def test_own_loader(told):
    """The package sees its own loader, also while it is imported, and finds its files by it."""
    import wabble

    assert wabble.here is wabble.__loader__
    assert importlib.resources.files("wabble").joinpath("inner.py").is_file()
    assert importlib.reload(wabble) is wabble
    assert [row for row, _module in told] == ["row", "row"]


def test_absent(told):
    """A package that does not exist is not found, as ever."""
    finder = Imports({"wubble": "row"}, lambda *_: told.append(1))
    try:
        with pytest.raises(ModuleNotFoundError, match="wubble"):
            importlib.import_module("wubble")
    finally:
        finder.remove()
    assert told == []


def test_removed(told):
    """Nothing is told after it was removed, which may be asked twice."""
    finder = next(one for one in sys.meta_path if isinstance(one, Imports))
    finder.remove()
    finder.remove()
    importlib.import_module("wabble")
    assert told == []
