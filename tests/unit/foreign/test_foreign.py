"""kcl.foreign: foreign caches, each by its owner's own rules."""

import contextlib
import gc
import importlib
import os

import pytest

from kcl import foreign
from kcl.foreign.table import ROWS

WORDS = [
    *("", " 1", "1", "0", "2", "true", "True", "FALSE", "t", "f"),
    *("y", "n", "yes", "no", "on", "off", "ON", "sure"),
]


class TestOff:
    @pytest.mark.parametrize("variable", ["LOOPY_NO_CACHE", "CG_NO_CACHE", "PYOPENCL_NO_CACHE"])
    @pytest.mark.parametrize("word", WORDS)
    def test_as_pytools(self, monkeypatch, variable, word):
        """loopy's and pyopencl's words mean what pytools.strtobool makes of them; what it refuses counts as off."""
        from pytools import strtobool

        off, refused = True, True
        with contextlib.suppress(ValueError):
            off, refused = bool(strtobool(word)), False
        monkeypatch.setenv(variable, word)
        why = foreign.off("pyopencl" if variable.startswith("PY") else "loopy")
        assert bool(why) is off
        assert ("rejects" in why) is refused
        assert not off or why.startswith(f"{variable}={word}")

    @pytest.mark.parametrize(
        ("name", "variable", "off", "on"),
        [
            # on only if the value starts with 1: the word true turns it off
            ("pocl", "POCL_KERNEL_CACHE", ["true", "0", ""], ["1", "1x"]),
            ("cuda", "CUDA_CACHE_DISABLE", ["1"], ["true"]),
            ("comgr", "AMD_COMGR_CACHE", ["0"], ["", "1", "no", "false"]),
            ("mesa", "MESA_SHADER_CACHE_DISABLE", ["1", "true", "Y"], ["", "0", "on", "x"]),
            ("neo", "NEO_CACHE_PERSISTENT", ["0", "", "true", "-0"], ["1", "2", "-1", "01", "1x"]),
        ],
    )
    def test_each_switch_means_what_its_owners_parser_makes_of_it(
        self, monkeypatch, name, variable, off, on
    ):
        for value in (*off, *on):
            monkeypatch.setenv(variable, value)
            start = f"{variable}={value}" if value in off else ""
            assert foreign.off(name)[: len(start) or None] == start, value

    def test_directory_that_must_exist(self, monkeypatch, tmp_path):
        """Intel's driver goes without a cache where the directory that it is told is not there."""
        monkeypatch.setenv("NEO_CACHE_DIR", str(tmp_path))
        assert not foreign.off("neo")
        monkeypatch.setenv("NEO_CACHE_DIR", str(tmp_path / "none"))
        assert "no such directory" in foreign.off("neo")

    def test_without_a_variable_every_cache_is_on(self):
        assert {name for name in ROWS if foreign.off(name)} == set()

    def test_flags(self, monkeypatch):
        """pyopencl's own flag counts, and a call of loopy, whose words are the reason; kcl's own wish is no user's."""
        import loopy
        import pyopencl

        monkeypatch.setattr(pyopencl, "_PYOPENCL_NO_CACHE", True)
        assert foreign.off("pyopencl")
        with loopy.CacheMode(False):
            assert foreign.off("loopy") == "loopy.set_caching_enabled(False)"
            with foreign.loopy_disk_caches_off():
                assert foreign.off("loopy")
        with foreign.loopy_disk_caches_off():
            assert loopy.CACHING_ENABLED is False
            assert not foreign.off("loopy")
        assert loopy.CACHING_ENABLED is True


@pytest.mark.parametrize(
    ("name", "variables", "path", "why"),
    [
        ("comgr", "", "{xdg}/comgr", "XDG_CACHE_HOME"),
        ("comgr", "AMD_COMGR_CACHE_DIR=/c", "/c", "AMD_COMGR_CACHE_DIR"),
        ("cuda", "", "{home}/.nv/ComputeCache", "default"),
        ("cuda", "CUDA_CACHE_PATH=/c", "/c", "CUDA_CACHE_PATH"),
        ("loopy", "", "{xdg}/pytools", "XDG_CACHE_HOME"),
        ("intel", "", "", ""),
        ("mesa", "", "{xdg}", "XDG_CACHE_HOME"),
        ("mesa", "MESA_GLSL_CACHE_DIR=/m", "/m", "MESA_GLSL_CACHE_DIR"),
        ("mesa", "MESA_SHADER_CACHE_DIR=/n MESA_GLSL_CACHE_DIR=/m", "/n", "MESA_SHADER_CACHE_DIR"),
        ("neo", "XDG_CACHE_HOME=", "{home}/.cache/neo_compiler_cache", "default"),
        ("pocl", "POCL_CACHE_DIR=/p", "/p", "POCL_CACHE_DIR"),
        ("pocl", "POCL_CACHE_DIR=", "{xdg}/pocl/kcache", "XDG_CACHE_HOME"),
        ("pocl", "XDG_CACHE_HOME=a", "a/pocl/kcache", "XDG_CACHE_HOME"),
        ("pocl", "XDG_CACHE_HOME=", "{home}/.cache/pocl/kcache", "default"),
        ("pocl", "HOME= XDG_CACHE_HOME=", "/tmp/pocl/kcache", "default"),
        ("pyopencl-binary", "", "{xdg}/pyopencl", "XDG_CACHE_HOME"),
        ("pyopencl-binary", "XDG_CACHE_HOME=relative", "{home}/.cache/pyopencl", "default"),
    ],
)
def test_templates(monkeypatch, tmp_path, name, variables, path, why):
    """The first template that can be filled in decides, and the variable that did is named."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    words = {"home": tmp_path / "home", "xdg": tmp_path / "cache"}
    for variable, _, value in (pair.partition("=") for pair in variables.split()):
        monkeypatch.setenv(variable, value)
    assert foreign.place(name) == (path.format(**words), why)


def test_code_variables(monkeypatch):
    """Variables that change generated code are listed with their values, sorted; a changed one with both values."""
    assert foreign.code_variables() == []
    monkeypatch.setenv("POCL_WORK_GROUP_METHOD", "loops")
    monkeypatch.setenv("CL_CONFIG_CPU_TARGET_ARCH", "corei7")
    monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", "1")
    assert foreign.code_variables() == [
        ("CL_CONFIG_CPU_TARGET_ARCH", "'corei7', set by the program"),
        ("POCL_WORK_GROUP_METHOD", "'loops', set by the program"),
    ]


@pytest.mark.parametrize("before", [None, "/before"])
def test_variables_are_restored(monkeypatch, before):
    """A variable that the user set is as it was afterwards, and one that was not set is not."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    if before:
        monkeypatch.setenv("XDG_CACHE_HOME", before)
    with contextlib.suppress(ImportError), foreign.variables({"XDG_CACHE_HOME": "/private"}):
        assert os.environ["XDG_CACHE_HOME"] == "/private"
        raise ImportError
    assert os.environ.get("XDG_CACHE_HOME") == before


class TestImportAnyway:
    def test_unusable_directory(self, child):
        """A module that cannot be imported without its cache directory gets a private one of this user."""
        code = """
            import json, os
            from kcl.foreign import import_anyway
            import_anyway("pyopencl.invoker")
            import pyopencl.invoker
            print(json.dumps([pyopencl.invoker.invoker_cache.container_dir, os.environ["XDG_CACHE_HOME"]]))
            """
        done = child.json(code, XDG_CACHE_HOME="/proc/nowhere", TMPDIR=str(child.directory))
        private = child.directory / f"kcl-{os.getuid()}" / "caches"
        assert done == [str(private / "pytools"), "/proc/nowhere"]
        assert private.stat().st_mode & 0o777 == private.parent.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("is_on", [True, False])
    @pytest.mark.parametrize("freezes", [True, False])
    def test_collector(self, child, is_on, freezes):
        """The collector rests during the import; then it is as it was, and only what the program froze is frozen."""
        (child.directory / "resting.py").write_text("import gc\nWAS_ON = gc.isenabled()\n")
        code = f"""
            import gc, json, sys
            from kcl import foreign
            {"gc.freeze()" if freezes else ""}
            {"gc.enable()" if is_on else "gc.disable()"}
            foreign.import_anyway("resting")
            print(json.dumps([sys.modules["resting"].WAS_ON, gc.isenabled(), gc.get_freeze_count() > 0]))
            """
        assert child.json(code) == [False, is_on, freezes]

    def test_another_error_is_raised(self):
        with pytest.raises(ModuleNotFoundError):
            foreign.import_anyway("no_such_module_of_anybody")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_the_collector_of_a_child():
    """Python's collector rests while loopy is imported; in a child that another thread forks meanwhile it works."""
    ends = []

    def load():
        assert not gc.isenabled()
        if (child := os.fork()) == 0:
            os._exit(gc.isenabled())
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    foreign.load_with_usable_cache(load)
    assert (ends, gc.isenabled()) == ([True], True)


class Interrupting(list):
    """The wishes of a switch, in which an interrupt comes as the first one was noted."""

    def append(self, wish):
        super().append(wish)
        raise KeyboardInterrupt


def test_an_interrupt_as_caches_go_off(monkeypatch):
    """An interrupt at any step leaves loopy's caches as they were, and no wish behind."""
    loopy, switch = importlib.import_module("loopy"), foreign._loopy_switch()
    before = loopy.CACHING_ENABLED
    monkeypatch.setattr(switch, "wishes", Interrupting())
    with pytest.raises(KeyboardInterrupt), foreign.loopy_disk_caches_off():
        pass
    assert (loopy.CACHING_ENABLED, switch.wishes) == (before, [])
