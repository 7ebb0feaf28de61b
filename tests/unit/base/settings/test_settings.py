"""kcl.base.settings: every variable, typed; what is not understood is said and never trusted."""

import os
import re
import sys
import types

import pytest
from harness import ROOT

from kcl import foreign
from kcl.base import settings

CELL = """
from IPython.core.interactiveshell import InteractiveShell
from kcl.base.settings import place_of
shell = InteractiveShell.instance()
shell.run_cell("pass", store_history=True)
shell.run_cell("def function(): pass", store_history=True)
print(place_of(shell.user_ns["function"].__code__.co_filename, 1), place_of("/a/b.py", 2))
"""
EVERY = frozenset(settings.LAYERS)


def test_place_in_a_notebook(child):
    """The code of a cell is named by the number of the cell, that of a file by the file."""
    pytest.importorskip("IPython")
    assert child.run(CELL).stdout == "In[2]:1 b.py:2\n"


class TestRead:
    @pytest.mark.faults
    def test_defaults(self):
        """Without a variable every cache is on, helpers work in the background, and nothing is rejected."""
        chosen = settings.read()
        assert chosen.cache_dir is None
        assert chosen.promote == "background"
        assert not chosen.no_cache | chosen.report | chosen.strict
        assert not chosen.rejected

    @pytest.mark.parametrize(
        ("variable", "value", "read"),
        [
            *(("NO_CACHE", word, {"no_cache": EVERY}) for word in ("1", "true", "YES", "on")),
            *(("NO_CACHE", word, {"no_cache": set()}) for word in ("", "0", "false", "No", "off")),
            ("NO_CACHE", " Binary ", {"no_cache": {"binary"}}),
            ("NO_CACHE", "binary, generator,", {"no_cache": {"generator", "binary"}}),
            ("STRICT", "hit, FAULT", {"strict": {"hit", "fault"}, "strict_fault": ""}),
            ("PROMOTE", "off", {"promote": "off"}),
            ("PROMOTE", "exit", {"promote": "exit"}),
            ("REPORT", "1", {"report": {"table"}}),
            ("REPORT", "explain", {"report": {"explain"}}),
            ("REPORT", "Explain, yes", {"report": {"table", "explain"}}),
            ("REPORT", "0", {"report": set(), "report_file": None}),
            ("REPORT", "kernels", {"report": {"kernels"}}),
            ("REPORT", "json:/tmp/R, 1.jsonl", {"report": set(), "report_file": "/tmp/R, 1.jsonl"}),
            ("REPORT", "1,explain,json:/r", {"report": {"table", "explain"}, "report_file": "/r"}),
            ("CACHE_DIR", "/c", {"cache_dir": "/c"}),
        ],
    )
    def test_understood(self, monkeypatch, variable, value, read):
        """Words for yes and no, and lists in any order and case, are taken as of now, not of the import."""
        monkeypatch.setenv(f"KCL_{variable}", value)
        chosen = settings.read()
        assert {name: getattr(chosen, name) for name in read} == read
        assert not chosen.rejected

    @pytest.mark.parametrize(
        ("variable", "value", "read", "words"),
        [
            *(
                ("NO_CACHE", word, {"no_cache": EVERY}, "KCL_NO_CACHE")
                for word in ("2", "binaries", "generator;binary", "generator,tunings")
            ),
            ("STRICT", "hit,warm", {}, "'warm'"),
            ("PROMOTE", "sometimes", {"promote": "off"}, "KCL_PROMOTE"),
            ("REPORT", "1,json:here", {"report": {"table"}, "report_file": None}, "absolute"),
            ("REPORT", "perhaps", {"report": set()}, "KCL_REPORT"),
            ("CACHE_DIR", "cache", {"cache_dir": None}, "KCL_CACHE_DIR"),
            ("TRACE", "trace.json", {"trace": None}, "KCL_TRACE"),
            # One that only the settings file can have is said without its value.
            (
                "TRUSTED_KEYS",
                "a:secret",
                {"trusted_keys": ()},
                "KCL_TRUSTED_KEYS is not read: write trusted_keys into ",
            ),
            ("REMOTE_WRITE", "exit", {"remote_write": ""}, "write remote_write into "),
            ("REMOTE_UNSIGNED", "s3://b", {"remote_unsigned": ()}, "write remote_unsigned into "),
            ("SITE_OWNERS", "47110", {"site_owners": frozenset()}, "write site_owners into "),
        ],
    )
    def test_not_understood(self, monkeypatch, variable, value, read, words):
        """What is not understood is named, and nothing is trusted for it: layers are off, relative paths ignored."""
        monkeypatch.setenv(f"KCL_{variable}", value)
        chosen = settings.read()
        assert {name: getattr(chosen, name) for name in read} == read
        (said,) = chosen.rejected
        assert words in said
        assert "secret" not in said
        assert chosen.strict_fault == (said if variable == "STRICT" else "")

    def test_a_launcher_of_mpi_changes_nothing_in_what_is_asked_for(self, monkeypatch):
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
        assert settings.read().promote == "background"


@pytest.mark.skipif(sys.platform != "linux", reason="platformdirs answers itself elsewhere")
@pytest.mark.parametrize(
    "value", ["/somewhere/else", "relative", "", "  ", None, "/trailing/", "~/x"]
)
def test_as_platformdirs(monkeypatch, value):
    """The answer without platformdirs is the one that platformdirs gives, hence pytools and pyopencl."""
    import platformdirs

    monkeypatch.delenv("XDG_CACHE_HOME")
    if value is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    expected = platformdirs.user_cache_dir("pytools", "pytools")
    assert os.path.normpath(settings.user_cache_dir("pytools")) == os.path.normpath(expected)


@pytest.mark.parametrize("home", ["relative", "~", "", "/absolute"])
def test_home(monkeypatch, home, tmp_path):
    """The home directory is an absolute path, also where HOME is none; then it is private and temporary."""
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME")
    private = str(tmp_path / f"kcl-{os.getuid()}")
    assert settings.home() == {"": "/", "/absolute": "/absolute"}.get(home, private)
    places = [foreign.place(name).path or "/" for name in ("loopy", "pyopencl", "cuda")]
    assert all(map(os.path.isabs, (settings.user_cache_dir("kcl"), *places)))


class TestSettings:
    def test_every_variable_has_a_row_on_the_page_of_variables_in_order(self):
        names = [setting.variable for setting in settings.SETTINGS]
        assert names == sorted(set(names))
        page = (ROOT / "doc" / "reference" / "environment.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (`KCL_\w+`|none) \| (`\w+`|never) \|", page, re.MULTILINE)
        for (variable, key), setting in zip(rows, settings.SETTINGS, strict=True):
            assert variable == ("none" if setting.file_only else f"`{setting.variable}`")
            assert key == ("never" if setting.variable_only else f"`{setting.key}`")

    def test_no_variable_without_a_row_is_read(self):
        text = (ROOT / "kcl" / "base" / "settings" / "__init__.py").read_text()
        read = set(re.findall(r'"(KCL_[A-Z_]+)"', text))
        assert read == {setting.variable for setting in settings.SETTINGS} | {settings.RUN}


BY_PYTHON = object()  # a module that `python -m` has found
CONNECTION = ["/lib/ipykernel_launcher.py", "-f", "/run/kernel-1.json"]
ARCHIVE = {"__spec__": BY_PYTHON, "__file__": "app.pyz/__main__.py"}


@pytest.mark.parametrize(
    ("arguments", "main", "path", "name"),
    [
        (["run.py"], {"__file__": "/a/run.py"}, "/a/run.py", "run.py"),
        (["/lib/pkg/__main__.py"], {"__spec__": BY_PYTHON}, "/lib/pkg/__main__.py", "pkg"),
        (["app.pyz"], ARCHIVE, "/a/app.pyz", "app.pyz"),
        (["/a/run.py"], {"__spec__": BY_PYTHON, "__file__": "/lib/loky.py"}, "/a/run.py", "run.py"),
        (["/tmp/tmp1.scr.py"], {"__file__": "/a/plot.py"}, "/a/plot.py", "plot.py"),
        (CONNECTION, {"__vsc_ipynb_file__": "/a/b.ipynb"}, "/a/b.ipynb", "b.ipynb"),
        (CONNECTION, {"JPY_SESSION_NAME": "/a/waves.ipynb"}, "/a/waves.ipynb", "waves.ipynb"),
        (CONNECTION, {}, f"notebook {CONNECTION}", "notebook"),
        *((nothing, {}, "", "") for nothing in ([""], [], None)),
    ],
)
def test_program(monkeypatch, arguments, main, path, name):
    """A program is told from others by its path; its name is that of the file, the package or Jupyter's notebook."""
    monkeypatch.delenv("PYTEST_XDIST_TESTRUNUID", raising=False)  # of a worker that runs this test
    monkeypatch.setattr(os, "getcwd", lambda: "/a")
    monkeypatch.setattr("sys.argv", arguments)
    if "JPY_SESSION_NAME" in main:
        monkeypatch.setenv("JPY_SESSION_NAME", main["JPY_SESSION_NAME"])
    module = types.ModuleType("__main__")
    vars(module).update(main)
    monkeypatch.setitem(sys.modules, "__main__", module)
    assert (settings.program_path(), settings.driver_name()) == (path, name)


def test_texts(child):
    """Two texts of `python -c` are two programs, both named "-c"."""
    said = "from kcl.base import settings\nprint(settings.driver_name(), settings.program_path())"
    one, again, other = (
        child.python("-c", text).stdout.split(" ", 1) for text in (said, said, f"{said}\n")
    )
    assert one[0] == other[0] == "-c"
    assert one == again != other


def test_worker(monkeypatch):
    """A worker of pytest-xdist has the name of pytest; a text that a test runs has not."""
    monkeypatch.setattr("sys.argv", ["-c"])
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", "5f")
    monkeypatch.delitem(sys.modules, "execnet", raising=False)
    assert settings.driver_name() == "-c"
    monkeypatch.setitem(sys.modules, "execnet", types)
    assert (settings.program_path(), settings.driver_name()) == ("pytest 5f", "pytest")
