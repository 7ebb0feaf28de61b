"""kcl.cache.remote_use: the folder that names the project of a process, as of its first look-up with a remote."""

import os
import sys
from types import ModuleType

import pytest

import kcl
from kcl.base import process
from kcl.cache import layers, remote_use
from kcl.cache.key import Key, Part


@pytest.fixture
def main(monkeypatch):
    """A module `__main__` without a file."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def test_children(main, tmp_path, monkeypatch):
    """Children have the folder of their parent from its first look-up on, whatever their program is."""
    (tmp_path / "run.py").write_text("")
    main.__file__ = str(tmp_path / "run.py")
    monkeypatch.setenv("KCL_REMOTE", tmp_path.as_uri())
    layers.generator().look_up("0" * 64, Key([Part("a", "b")]))
    assert os.environ["_KCL_FOLDER"] == str(tmp_path)
    main.__file__ = kcl.__file__
    process.reset()
    assert remote_use.folder() == str(tmp_path)


@pytest.mark.usefixtures("main")
@pytest.mark.parametrize("is_early", [True, False])
def test_removed_directory(tmp_path, monkeypatch, is_early):
    """The working directory counts as it was at the first look-up; one that was gone then belongs to no folder."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setattr(sys, "argv", ["-c"])
    process.reset()
    if is_early:
        assert remote_use.folder() == str(gone)
    gone.rmdir()
    try:
        assert remote_use.folder() == (str(gone) if is_early else os.sep)
    finally:
        os.chdir(tmp_path)
    assert remote_use.folder() == (str(gone) if is_early else os.sep)
