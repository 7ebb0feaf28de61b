"""kcl.option: where files lie, by call, by variable, by platform."""

import os

import pytest

import kcl
from kcl import option
from kcl.base import settings
from kcl.cache import layers


class TestCacheDir:
    def test_precedence(self, monkeypatch, tmp_path):
        """A call wins over KCL_CACHE_DIR, which wins over XDG_CACHE_HOME."""
        assert option.get_cache_dir() == str(tmp_path / "cache")
        monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path / "variable"))
        assert option.get_cache_dir() == str(tmp_path / "variable")
        kcl.option.cache_dir(tmp_path / "call")
        assert kcl.option.get_cache_dir() == str(tmp_path / "call")
        assert not os.listdir(tmp_path)

    def test_same_three_folders(self, tmp_path):
        """Under another root lie the same three folders, each beside its namesake's."""
        option.cache_dir(str(tmp_path))
        assert [settings.folder(name) for name in ("pytools", "pyopencl", "kcl")] == [
            str(tmp_path / name) for name in ("pytools", "pyopencl", "kcl")
        ]
        assert layers.generator().place.startswith(str(tmp_path / "pytools" / "pdict-"))
        assert layers.binary().place == str(tmp_path / "pyopencl" / "kcl-binary-v1")

    def test_takes_effect_at_once(self, tmp_path):
        """Layers that are open already look at the new place from the next look-up on."""
        before = layers.binary().place
        option.cache_dir(tmp_path / "new")
        assert layers.binary().place != before
        assert layers.binary().place.startswith(str(tmp_path / "new"))

    def test_assigned(self, tmp_path):
        """An assignment, which would change nothing, is refused."""
        for name in ("cache_dir", "cach_dir"):
            words = r"cannot be assigned: call kcl.option.cache_dir\("
            with pytest.raises(AttributeError, match=words):
                setattr(kcl.option, name, tmp_path)
        assert callable(kcl.option.cache_dir)

    def test_relative(self):
        """A relative path is refused with the remedy."""
        with pytest.raises(ValueError, match="abspath"):
            option.cache_dir("cache")
