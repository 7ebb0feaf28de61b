"""kcl.adapters: foreign caches, each by its owner's own rules."""

from __future__ import annotations

import contextlib
import os

import pytest

from kcl import adapters
from kcl.adapters.table import ROWS

WORDS = ["1", "0", "true", "True", "FALSE", "y", "n", "yes", "no", "t", "f", "on", "off", "ON", "", "2", " 1", "sure"]


class TestTable:
    def test_sorted(self):
        """The rows are sorted by name, so that two people add the same row in the same place."""
        assert list(ROWS) == sorted(ROWS)


class TestState:
    @pytest.mark.parametrize("variable", ["LOOPY_NO_CACHE", "CG_NO_CACHE", "PYOPENCL_NO_CACHE"])
    @pytest.mark.parametrize("word", WORDS)
    def test_as_pytools(self, monkeypatch, variable, word):
        """loopy's and pyopencl's words mean what pytools.strtobool makes of them; what it refuses counts as off."""
        from pytools import strtobool

        try:
            off = bool(strtobool(word))
            refused = False
        except ValueError:
            off = refused = True
        monkeypatch.setenv(variable, word)
        state = adapters.state("pyopencl" if variable.startswith("PY") else "loopy")
        assert state.on is not off
        assert ("rejects" in state.reason) is refused
        assert not off or state.reason.startswith(f"{variable}={word}")

    @pytest.mark.parametrize(("value", "on"), [("1", True), ("1x", True), ("true", False), ("0", False), ("", False)])
    def test_pocl(self, monkeypatch, value, on):
        """PoCL's cache is on only if the value starts with 1: the word true turns it off."""
        monkeypatch.setenv("POCL_KERNEL_CACHE", value)
        assert adapters.state("pocl").on is on

    def test_nvidia(self, monkeypatch):
        """NVIDIA's cache is off for the value 1 alone."""
        monkeypatch.setenv("CUDA_CACHE_DISABLE", "true")
        assert adapters.state("cuda").on
        monkeypatch.setenv("CUDA_CACHE_DISABLE", "1")
        assert not adapters.state("cuda").on

    def test_unset(self):
        """Without a variable every cache is on, but JAX's, which has no place unless it is told one."""
        assert {name for name in ROWS if adapters.state(name) != (True, "")} == {"jax"}
        assert adapters.state("jax").reason.startswith("JAX_COMPILATION_CACHE_DIR (not set")

    def test_flag_of_pyopencl(self, monkeypatch):
        """pyopencl's own flag, flipped after its import, counts."""
        import pyopencl

        monkeypatch.setattr(pyopencl, "_PYOPENCL_NO_CACHE", True)
        assert not adapters.state("pyopencl").on

    def test_call_of_loopy(self):
        """loopy.set_caching_enabled(False) counts as off, with the words of the call as the reason."""
        import loopy

        with loopy.CacheMode(False):
            assert adapters.state("loopy") == (False, "loopy.set_caching_enabled(False)")
        assert adapters.state("loopy").on

    def test_own_misses_are_no_wish(self):
        """While kcl itself runs loopy without its disk caches, loopy's cache is not off by the user's wish."""
        import loopy

        with adapters.loopy_disk_caches_off():
            assert loopy.CACHING_ENABLED is False
            assert adapters.state("loopy").on
        assert loopy.CACHING_ENABLED is True
        with loopy.CacheMode(False), adapters.loopy_disk_caches_off():
            assert not adapters.state("loopy").on


class TestDirectory:
    def test_pocl(self, monkeypatch):
        """PoCL's directory: its own variable, then XDG_CACHE_HOME as it is, then HOME, then /tmp."""
        monkeypatch.setenv("POCL_CACHE_DIR", "/p")
        assert adapters.directory("pocl") == "/p"
        monkeypatch.delenv("POCL_CACHE_DIR")
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert adapters.directory("pocl") == os.path.join("relative", "pocl", "kcache")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "/h")
        assert adapters.directory("pocl") == "/h/.cache/pocl/kcache"
        monkeypatch.delenv("HOME")
        assert adapters.directory("pocl") == "/tmp/pocl/kcache"

    def test_nvidia(self, monkeypatch):
        """NVIDIA's directory: its own variable, else below the home directory."""
        monkeypatch.setenv("HOME", "/h")
        assert adapters.directory("cuda") == "/h/.nv/ComputeCache"
        monkeypatch.setenv("CUDA_CACHE_PATH", "/c")
        assert adapters.directory("cuda") == "/c"

    def test_pytools(self, tmp_path):
        """loopy and pyopencl keep theirs in pytools' directory."""
        assert adapters.directory("loopy") == adapters.directory("pyopencl") == str(tmp_path / "cache" / "pytools")


class TestCodeVariables:
    def test_only_set_ones(self, monkeypatch):
        """Variables that change generated code are listed with their values where they are set, sorted."""
        assert adapters.code_variables() == []
        monkeypatch.setenv("POCL_WORK_GROUP_METHOD", "loops")
        monkeypatch.setenv("CL_CONFIG_CPU_TARGET_ARCH", "corei7")
        monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", "1")
        assert adapters.code_variables() == [
            ("CL_CONFIG_CPU_TARGET_ARCH", "corei7"),
            ("POCL_WORK_GROUP_METHOD", "loops"),
        ]


class TestPrivateCacheHome:
    @pytest.mark.parametrize("before", [None, "/before"])
    def test_restored(self, monkeypatch, before):
        """A variable that the user set is as it was afterwards, and one that was not set is not."""
        monkeypatch.delenv("XDG_CACHE_HOME")
        if before:
            monkeypatch.setenv("XDG_CACHE_HOME", before)
        with contextlib.suppress(ImportError), adapters.private_cache_home("/private"):
            assert os.environ["XDG_CACHE_HOME"] == "/private"
            raise ImportError
        assert os.environ.get("XDG_CACHE_HOME") == before


class TestImportAnyway:
    def test_unusable_directory(self, child):
        """A module that cannot be imported without its cache directory gets a private one, which is gone afterwards."""
        done = child.json(
            """
            import json, os, tempfile
            tempfile.tempdir = os.getcwd()
            from kcl.adapters import import_anyway
            import_anyway("pyopencl.invoker")
            import pyopencl.invoker
            print(json.dumps([pyopencl.invoker.invoker_cache.container_dir, os.environ["XDG_CACHE_HOME"]]))
            """,
            XDG_CACHE_HOME="/proc/nowhere",
        )
        assert done[0].startswith(str(child.directory))
        assert done[1] == "/proc/nowhere"
        assert not os.path.exists(done[0])

    def test_other_errors(self):
        """An import that fails for another reason fails as ever."""
        with pytest.raises(ModuleNotFoundError):
            adapters.import_anyway("no_such_module_of_anybody")
