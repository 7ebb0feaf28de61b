"""`kcl init`: the cache of a checkout, made, recorded, refused and undone."""

import os
import pathlib
import shutil
import sys
import warnings

import pytest
from commands import run

from kcl import option
from kcl.base import process, settings
from kcl.base.settings import file
from kcl.cache import layers
from kcl.cache.faults import CacheWarning


def init(*words: str, code=0):
    done = run("init", *words, code=code)
    process.reset()
    return done


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout, with the working directory some levels below its root."""
    root = pathlib.Path(os.path.realpath(tmp_path)) / "checkout"
    (root / ".git").mkdir(parents=True, mode=0o700)
    root.chmod(0o755)
    (root / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(root / "deep" / "er")
    return root


class TestInit:
    def test_makes(self, checkout, monkeypatch):
        """The directory is made at the root, ignored by git, tagged, the user's alone, recorded, and used below it."""
        folder = checkout / ".kcl_cache"
        assert str(folder) in init().output
        assert (folder / ".gitignore").read_text() == "*\n"
        tag = (folder / "CACHEDIR.TAG").read_text()
        assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55")
        assert sys.platform == "win32" or folder.stat().st_mode & 0o777 == 0o700
        before = file.checkouts(settings.settings_file())
        assert str(checkout) in before
        assert settings.folder("kcl") == str(folder / "kcl")
        assert layers.binary().place == str(folder / "pyopencl" / "kcl-binary-v1")
        assert layers.generator().place.startswith(str(folder / "pytools"))
        assert "already" in init().output
        assert file.checkouts(settings.settings_file()) == before
        monkeypatch.chdir(checkout.parent)
        assert not option.get_cache_dir().startswith(str(checkout))

    def test_worktree(self, checkout, monkeypatch, tmp_path):
        """A file .git, as a worktree has it, marks a checkout too; where KCL_CACHE_DIR is set it wins, and that is said."""
        (checkout / "deep" / ".git").write_text("gitdir: elsewhere\n")
        monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path / "mine"))
        assert "KCL_CACHE_DIR" in init().output
        assert (checkout / "deep" / ".kcl_cache").is_dir()
        assert option.get_cache_dir() == str(tmp_path / "mine")

    def test_moved(self, checkout, monkeypatch, tmp_path):
        """A checkout that was moved keeps its cache: its token is known."""
        init()
        (checkout / ".kcl_cache" / "kcl").mkdir()
        target = pathlib.Path(os.path.realpath(tmp_path)) / "moved"
        checkout.rename(target)
        monkeypatch.chdir(target)
        process.reset()
        assert not option.get_cache_dir().startswith(str(target))
        init()
        assert option.get_cache_dir() == str(target / ".kcl_cache")


class TestRefused:
    def test_came_with_a_clone(self, checkout):
        """A directory that was there before is neither used nor taken over, and each is said."""
        os.makedirs(checkout / ".kcl_cache" / "pytools")
        (checkout / ".kcl_cache" / "token").write_text("0" * 32)
        assert "clone" in init(code=1).output
        assert file.checkouts(settings.settings_file()) == {}
        with pytest.warns(CacheWarning, match="clone"):
            assert not layers.binary().place.startswith(str(checkout))
        with warnings.catch_warnings():  # once
            warnings.simplefilter("error")
            layers.generator()

    @pytest.mark.skipif(sys.platform == "win32", reason="modes say nothing there")
    @pytest.mark.parametrize(
        ("why", "cure"), [("none", "KCL_CACHE_DIR"), ("records", "chmod"), ("checkout", "chmod")]
    )
    def test_cannot_be(self, checkout, why, cure):
        """Outside of a checkout, or where others can write it or the records, nothing is made; the cure is named."""
        records = pathlib.Path(settings.settings_file()).parent / "checkouts"
        records.mkdir(parents=True, mode=0o700)
        if why == "none":
            (checkout / ".git").rmdir()
        else:
            (records if why == "records" else checkout).chmod(0o777)
        assert cure in init(code=1).output
        assert not (checkout / ".kcl_cache").exists()


class TestUndo:
    def test_undo(self, checkout):
        """The directory and the record go, the checkout stays; what was not recorded is not removed."""
        init()
        (checkout / ".kcl_cache" / "kcl").mkdir()
        init("--undo")
        assert sorted(os.listdir(checkout)) == [".git", "deep"]
        assert file.checkouts(settings.settings_file()) == {}
        assert not option.get_cache_dir().startswith(str(checkout))
        (checkout / ".kcl_cache").mkdir()
        init("--undo", code=1)
        assert (checkout / ".kcl_cache").is_dir()

    def test_another_directory(self, checkout):
        """A directory that took the place of the recorded one is left alone; removed by hand, the record can go later."""
        init()
        shutil.rmtree(checkout / ".kcl_cache")
        (checkout / ".kcl_cache").mkdir()
        assert "left alone" in init("--undo").output
        assert (checkout / ".kcl_cache").is_dir()
        (checkout / ".kcl_cache").rmdir()
        init()
        shutil.rmtree(checkout / ".kcl_cache")
        process.reset()
        assert not option.get_cache_dir().startswith(str(checkout))
        assert not settings.read().rejected
        init("--undo")
