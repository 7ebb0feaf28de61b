"""kcl.caches: foreign caches, each by its owner's own rules."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sqlite3
import sys

import pytest

from kcl import caches
from kcl.caches import contents, table
from kcl.caches.table import ROWS, Places

WORDS = ["1", "0", "true", "True", "FALSE", "y", "n", "yes", "no", "t", "f", "on", "off", "ON", "", "2", " 1", "sure"]


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """Unset what any owner reads, but for the root of a fresh cache; nothing here runs OpenCL in this process."""
    for variable in {each for row in ROWS.values() for each in row.variables} - {"HOME", "XDG_CACHE_HOME"}:
        monkeypatch.delenv(variable, raising=False)


class TestTable:
    def test_sorted(self):
        """The rows are sorted by name, so that two people add the same row in the same place."""
        assert list(ROWS) == sorted(ROWS)

    def test_facts(self):
        """Each row says what it is called, when its owner reads its variables, and by patterns that compile."""
        for name, row in ROWS.items():
            assert row.title
            assert row.read or not row.switches, name
            assert bool(row.places.here) == bool(row.own), name
            for pattern in (row.own, row.inside, row.entry):
                re.compile(pattern)

    def test_sources(self):
        """Above each row stands where its facts were read."""
        text = inspect.getsource(table)
        for name in caches.names():
            before = text.partition(f'    "{name}": Row(')[0].splitlines()[-1]
            assert before.startswith("    # "), name

    def test_neighbours(self):
        """kcl's own driver caches are no neighbours; Mesa, which serves the whole desktop, is one."""
        near = {"comgr", "cuda", "intel", "loopy", "neo", "pocl", "pyopencl", "pyopencl-binary"}
        assert {name for name, row in ROWS.items() if not row.neighbour} == near

    def test_operating_systems(self, monkeypatch):
        """A row has templates for three systems; one without templates has no cache there."""
        places = Places(("~/linux",), windows=())
        for platform, here in (("linux", ("~/linux",)), ("darwin", ("~/linux",)), ("win32", ())):
            monkeypatch.setattr(sys, "platform", platform)
            assert places.here == here


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
        state = caches.state("pyopencl" if variable.startswith("PY") else "loopy")
        assert state.on is not off
        assert ("rejects" in state.reason) is refused
        assert not off or state.reason.startswith(f"{variable}={word}")

    @pytest.mark.parametrize(("value", "on"), [("1", True), ("1x", True), ("true", False), ("0", False), ("", False)])
    def test_pocl(self, monkeypatch, value, on):
        """PoCL's cache is on only if the value starts with 1: the word true turns it off."""
        monkeypatch.setenv("POCL_KERNEL_CACHE", value)
        assert caches.state("pocl").on is on

    def test_nvidia(self, monkeypatch):
        """NVIDIA's cache is off for the value 1 alone."""
        monkeypatch.setenv("CUDA_CACHE_DISABLE", "true")
        assert caches.state("cuda").on
        monkeypatch.setenv("CUDA_CACHE_DISABLE", "1")
        assert not caches.state("cuda").on

    @pytest.mark.parametrize(
        ("name", "variable", "off", "on"),
        [
            ("comgr", "AMD_COMGR_CACHE", ["0"], ["", "1", "no", "false"]),
            ("cupy", "CUPY_CACHE_IN_MEMORY", ["1", "01"], ["", "0", "true", "2"]),
            ("jax", "JAX_ENABLE_COMPILATION_CACHE", ["0", "false", "OFF", "", "x"], ["1", "True", "yes"]),
            ("mesa", "MESA_SHADER_CACHE_DISABLE", ["1", "true", "Y"], ["", "0", "on", "x"]),
            ("neo", "NEO_CACHE_PERSISTENT", ["0", "", "true", "-0", "00"], ["1", "2", "-1", "01", "1x"]),
            ("taichi", "TI_OFFLINE_CACHE", ["0", "no"], ["", "1", "2"]),
            ("tilelang", "TILELANG_DISABLE_CACHE", ["1", "TRUE", "on"], ["", "0", "2"]),
            ("tinygrad", "CACHELEVEL", ["0", "-1", "x", ""], ["1", "2"]),
            ("tinygrad", "CCACHE", ["0"], ["1"]),
            ("torch", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", ["1", "true"], ["", "0"]),
            ("triton", "TRITON_ALWAYS_COMPILE", ["1", "Yes"], ["", "0", "2"]),
        ],
    )
    def test_words(self, monkeypatch, name, variable, off, on):
        """Each switch means what its owner's parser makes of it."""
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/somewhere")
        for value in off:
            monkeypatch.setenv(variable, value)
            assert caches.state(name).reason.startswith(f"{variable}={value}"), value
        for value in on:
            monkeypatch.setenv(variable, value)
            assert caches.state(name) == (True, ""), value

    def test_directory_that_must_exist(self, monkeypatch, tmp_path):
        """Intel's driver goes without a cache where the directory that it is told is not there."""
        monkeypatch.setenv("NEO_CACHE_DIR", str(tmp_path))
        assert caches.state("neo").on
        monkeypatch.setenv("NEO_CACHE_DIR", str(tmp_path / "none"))
        assert "no such directory" in caches.state("neo").reason

    def test_unset(self):
        """Without a variable every cache is on, but JAX's, which has no place unless it is told one."""
        assert {name for name in ROWS if caches.state(name) != (True, "")} == {"jax"}
        assert caches.state("jax").reason.startswith("JAX_COMPILATION_CACHE_DIR (not set")

    def test_flag_of_pyopencl(self, monkeypatch):
        """pyopencl's own flag, flipped after its import, counts."""
        import pyopencl

        monkeypatch.setattr(pyopencl, "_PYOPENCL_NO_CACHE", True)
        assert not caches.state("pyopencl").on

    def test_call_of_loopy(self):
        """loopy.set_caching_enabled(False) counts as off, with the words of the call as the reason."""
        import loopy

        with loopy.CacheMode(False):
            assert caches.state("loopy") == (False, "loopy.set_caching_enabled(False)")
        assert caches.state("loopy").on

    def test_own_misses_are_no_wish(self):
        """While kcl itself runs loopy without its disk caches, loopy's cache is not off by the user's wish."""
        import loopy

        with caches.loopy_disk_caches_off():
            assert loopy.CACHING_ENABLED is False
            assert caches.state("loopy").on
        assert loopy.CACHING_ENABLED is True
        with loopy.CacheMode(False), caches.loopy_disk_caches_off():
            assert not caches.state("loopy").on


class TestDirectory:
    def test_pocl(self, monkeypatch):
        """PoCL's directory: its own variable, then XDG_CACHE_HOME as it is, then HOME, then /tmp."""
        monkeypatch.setenv("POCL_CACHE_DIR", "/p")
        assert caches.directory("pocl") == "/p"
        monkeypatch.delenv("POCL_CACHE_DIR")
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert caches.directory("pocl") == os.path.join("relative", "pocl", "kcache")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "/h")
        assert caches.directory("pocl") == "/h/.cache/pocl/kcache"
        monkeypatch.delenv("HOME")
        assert caches.directory("pocl") == "/tmp/pocl/kcache"

    def test_nvidia(self, monkeypatch):
        """NVIDIA's directory: its own variable, else below the home directory."""
        monkeypatch.setenv("HOME", "/h")
        assert caches.directory("cuda") == "/h/.nv/ComputeCache"
        monkeypatch.setenv("CUDA_CACHE_PATH", "/c")
        assert caches.directory("cuda") == "/c"

    def test_pytools(self, tmp_path):
        """loopy and pyopencl keep theirs in pytools' directory."""
        assert caches.directory("loopy") == caches.directory("pyopencl") == str(tmp_path / "cache" / "pytools")


class TestPlace:
    @pytest.mark.parametrize(
        ("name", "variables", "path", "why"),
        [
            ("comgr", {}, "{xdg}/comgr", "XDG_CACHE_HOME"),
            ("comgr", {"AMD_COMGR_CACHE_DIR": "/c"}, "/c", "AMD_COMGR_CACHE_DIR"),
            ("cuda", {}, "{home}/.nv/ComputeCache", "default"),
            ("cupy", {"CUPY_CACHE_DIR": "/c"}, "/c", "CUPY_CACHE_DIR"),
            ("hidet", {}, "{home}/.cache/hidet", "default"),
            ("intel", {}, "", ""),
            ("jax", {}, "", ""),
            ("jax", {"JAX_COMPILATION_CACHE_DIR": "/j"}, "/j", "JAX_COMPILATION_CACHE_DIR"),
            ("mesa", {}, "{xdg}", "XDG_CACHE_HOME"),
            ("mesa", {"MESA_GLSL_CACHE_DIR": "/m"}, "/m", "MESA_GLSL_CACHE_DIR"),
            ("mesa", {"MESA_GLSL_CACHE_DIR": "/m", "MESA_SHADER_CACHE_DIR": "/n"}, "/n", "MESA_SHADER_CACHE_DIR"),
            ("neo", {"XDG_CACHE_HOME": ""}, "{home}/.cache/neo_compiler_cache", "default"),
            ("numba", {"NUMBA_CACHE_DIR": "/n"}, "/n", "NUMBA_CACHE_DIR"),
            ("numba", {"XDG_CACHE_HOME": ""}, "numba", "XDG_CACHE_HOME"),
            ("pocl", {"POCL_CACHE_DIR": ""}, "{xdg}/pocl/kcache", "XDG_CACHE_HOME"),
            ("pyopencl-binary", {}, "{xdg}/pyopencl", "XDG_CACHE_HOME"),
            ("pyopencl-binary", {"XDG_CACHE_HOME": "relative"}, "{home}/.cache/pyopencl", "default"),
            ("taichi", {"TI_OFFLINE_CACHE_FILE_PATH": "/t"}, "/t", "TI_OFFLINE_CACHE_FILE_PATH"),
            ("tilelang", {}, "{home}/.tilelang/cache", "default"),
            ("tilus", {"TILUS_CACHE_DIR": "/t"}, "/t", "TILUS_CACHE_DIR"),
            ("tinygrad", {"CACHEDB": "/t/my.db"}, "/t/my.db", "CACHEDB"),
            ("torch", {"TMPDIR": "{tmp}", "LOGNAME": "a:b"}, "{tmp}/torchinductor_a_b", "TMPDIR"),
            ("triton", {"TRITON_HOME": "/t"}, "/t/.triton/cache", "TRITON_HOME"),
            ("warp", {}, "{xdg}/warp", "XDG_CACHE_HOME"),
        ],
    )
    def test_templates(self, monkeypatch, tmp_path, name, variables, path, why):
        """The first template that can be filled in decides, and the variable that did is named."""
        import tempfile

        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        words = {"home": tmp_path / "home", "xdg": tmp_path / "cache", "tmp": tmp_path}
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value.format(**words))
        assert caches.place(name) == (path.format(**words), why)


def filled(name, *paths):
    """Make files below the directory of a cache; a path that ends in a slash is an empty directory."""
    for path in paths:
        place = os.path.join(caches.directory(name), path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not path.endswith("/"):
            with open(place, "wb") as stream:
                stream.write(b"12345")


class TestFiles:
    def test_shared_directory(self):
        """In a directory of several owners each has its own files, and those of nobody known are nobody's."""
        filled("loopy", "pdict-v5-loopy-a.sqlite", "pdict-v5-loopy-a.sqlite-journal", "pdict-v5-pyopencl-b.sqlite")
        filled("loopy", "pdict-v5-kcl-generated-v1.sqlite", "pdict-v5-pytato-c.sqlite", "other")
        assert [os.path.basename(path) for path in caches.files("loopy")] == [
            "pdict-v5-loopy-a.sqlite",
            "pdict-v5-loopy-a.sqlite-journal",
        ]
        assert [os.path.basename(path) for path in caches.files("pyopencl")] == ["pdict-v5-pyopencl-b.sqlite"]

    def test_never_a_link(self, tmp_path):
        """A link that has the name of something of the cache is none of its files."""
        filled("pocl", "AB/")
        os.symlink(tmp_path, os.path.join(caches.directory("pocl"), "CD"))
        assert [os.path.basename(path) for path in caches.files("pocl")] == ["AB"]

    def test_what_lies_inside(self, monkeypatch, tmp_path):
        """A directory that happens to have such a name, with something else inside, is not the cache's."""
        monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
        filled("pocl", "AB/" + "C" * 37 + "/program.bc", "DE/thesis.tex", "notes.txt")
        assert caches.files("pocl") == (str(tmp_path / "AB"),)

    def test_nothing(self):
        """A cache whose directory is not there has no files, and neither has one without a directory."""
        assert caches.files("triton") == caches.files("intel") == ()

    def test_single_file(self):
        """Where the cache is one file, that and what SQLite keeps beside it are its own."""
        filled("tinygrad", "cache.db", "cache.db-wal", "downloads/x")
        assert [os.path.basename(path) for path in caches.files("tinygrad")] == ["cache.db", "cache.db-wal"]


class TestLooksLike:
    def test_of_that_kind(self, monkeypatch, tmp_path):
        """A directory that holds something of a cache looks like it: not an empty one, a link, or another cache's."""
        monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
        filled("pocl", "AB/" + "C" * 37 + "/program.bc")
        assert caches.looks_like("pocl", str(tmp_path / "pocl"))
        assert not caches.looks_like("triton", str(tmp_path / "pocl"))
        os.symlink(tmp_path / "pocl", tmp_path / "link")
        os.mkdir(tmp_path / "empty")
        for path in ("link", "empty", "none"):
            assert not caches.looks_like("pocl", str(tmp_path / path))

    @pytest.mark.parametrize("place", ["/", "{home}", "{above}"])
    def test_too_wide(self, monkeypatch, tmp_path, place):
        """The root, the home directory, and what that lies in look like no cache, whatever they hold."""
        home = tmp_path / "home"
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        path = place.format(home=home, above=tmp_path)
        if path != "/":
            monkeypatch.setenv("POCL_CACHE_DIR", path)
            filled("pocl", "AB/" + "C" * 37 + "/program.bc")
        assert not caches.looks_like("pocl", path)


class TestMeasure:
    def test_files(self):
        """Entries are the files that stand for one; bytes and times are those of all files."""
        filled("pocl", *(f"AB/{letter * 37}/program.bc" for letter in "CDE"), "AB/" + "C" * 37 + "/k/0-0-0/k.so")
        filled("pocl", "tempfile_x.cl", "unknown")
        oldest = os.path.join(caches.directory("pocl"), "AB", "D" * 37, "program.bc")
        os.utime(oldest, (1e9, 1e9))
        measured = contents.measure("pocl")
        assert measured[:3] == (3, 25, 1e9)
        assert measured.newest > 1e9

    def test_rows(self):
        """The entries of a dictionary are its rows; a file that is no database is said, and the others still count."""
        filled("loopy", "pdict-v5-loopy-a.sqlite", "pdict-v5-loopy-b.sqlite")
        good = os.path.join(caches.directory("loopy"), "pdict-v5-loopy-b.sqlite")
        os.unlink(good)
        with contextlib.closing(sqlite3.connect(good)) as database, database:
            database.execute("CREATE TABLE dict (keyhash TEXT, key_value TEXT)")
            database.executemany("INSERT INTO dict VALUES (?, '')", [("a",), ("b",)])
        measured = contents.measure("loopy")
        assert measured.entries == 2
        assert "pdict-v5-loopy-a.sqlite: file is not a database" in measured.fault

    def test_writes_nothing(self):
        """Measuring makes no file, not even where the cache is absent."""
        before = {name: caches.files(name) for name in ROWS}
        assert all(contents.measure(name)[:2] == (0, 0) for name in ROWS)
        assert {name: caches.files(name) for name in ROWS} == before
        assert not os.path.exists(caches.directory("triton"))


LATE = """
import json, os, sys
from kcl import caches
from kcl.caches import late_switches
import loopy, pyopencl as cl, pyopencl.invoker
cl.get_platforms()
caches.state("pocl")  # as when a layer is first used
changed = [caches.changed()]
for pair in sys.argv[1:]:
    name, _, value = pair.partition("=")
    os.environ[name] = value
changed.append(caches.changed())
print(json.dumps([changed, late_switches.find()]))
"""


class TestLate:
    def test_after(self, child):
        """A variable that changes after its owner read it is found, with what the owner goes on with."""
        changes = ["LOOPY_NO_CACHE=1", "POCL_KERNEL_CACHE=0", "XDG_CACHE_HOME=/elsewhere", "KCL_NO_CACHE=1", "OTHER=1"]
        changed, found = child.json(LATE, *changes)
        assert changed == [False, True]
        words = {cache: words for cache, _variable, _value, words, sure in found if sure}
        assert words["loopy"].startswith("LOOPY_NO_CACHE=1 was set too late for loopy's PersistentDict cache")
        assert words["pocl"].startswith("POCL_KERNEL_CACHE=0 was set too late for PoCL's kernel cache, read at the fir")
        assert words["pyopencl"].endswith(f"its files are in {child.cache / 'pytools'}")
        assert words["kcl"].startswith("KCL_NO_CACHE=1 was set too late for kcl")
        assert set(words) == {"kcl", "loopy", "pocl", "pyopencl"}

    def test_not_known(self, child):
        """A change before kcl was used may have come in time: it is found, and said to be unsure."""
        code = LATE.replace('adapters.state("pocl")', "")
        _changed, found = child.json(code, f"POCL_CACHE_DIR={child.directory}")
        assert [(cache, sure) for cache, _variable, _value, _words, sure in found] == [("pocl", False)]
        assert f"if that came before, its files are in {child.cache}" in found[0][3]

    def test_without_effect(self, child):
        """A change that means the same to the owner, or of a variable that nobody reads, is none."""
        changed, found = child.json(LATE, "POCL_KERNEL_CACHE=1", "CUDA_CACHE_DIR=/x", "LOOPY_NO_CACHE=0")
        assert changed == [False, True]
        assert found == []


class TestCodeVariables:
    def test_only_set_ones(self, monkeypatch):
        """Variables that change generated code are listed with their values where they are set, sorted."""
        assert caches.code_variables() == []
        monkeypatch.setenv("POCL_WORK_GROUP_METHOD", "loops")
        monkeypatch.setenv("CL_CONFIG_CPU_TARGET_ARCH", "corei7")
        monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", "1")
        assert caches.code_variables() == [
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
        with contextlib.suppress(ImportError), caches.private_cache_home("/private"):
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
            from kcl.caches import import_anyway
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
            caches.import_anyway("no_such_module_of_anybody")
