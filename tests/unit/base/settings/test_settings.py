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
        assert not chosen.no_cache
        assert chosen.promote == "background"
        assert not chosen.report
        assert not chosen.strict
        assert not chosen.rejected

    @pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
    def test_every_layer_off(self, monkeypatch, value):
        """Any usual word for yes switches all layers off."""
        monkeypatch.setenv("KCL_NO_CACHE", value)
        assert settings.read().no_cache == frozenset(settings.LAYERS)
        assert not settings.read().rejected

    @pytest.mark.parametrize("value", ["", "0", "false", "No", "off"])
    def test_every_layer_on(self, monkeypatch, value):
        """Any usual word for no leaves all layers on."""
        monkeypatch.setenv("KCL_NO_CACHE", value)
        assert settings.read().no_cache == frozenset()
        assert not settings.read().rejected

    @pytest.mark.parametrize(
        ("value", "layers"),
        [
            ("generator", {"generator"}),
            (" Binary ", {"binary"}),
            ("generator,binary", {"generator", "binary"}),
            ("binary, generator,", {"generator", "binary"}),
        ],
    )
    def test_list_of_layers(self, monkeypatch, value, layers):
        """A list names the layers that are off, in any order and case."""
        monkeypatch.setenv("KCL_NO_CACHE", value)
        assert settings.read().no_cache == layers

    @pytest.mark.parametrize("value", ["2", "binaries", "generator;binary", "generator,tunings"])
    def test_nonsense_counts_as_off(self, monkeypatch, value):
        """A value that is not understood switches all layers off, and is named."""
        monkeypatch.setenv("KCL_NO_CACHE", value)
        chosen = settings.read()
        assert chosen.no_cache == frozenset(settings.LAYERS)
        assert "KCL_NO_CACHE" in chosen.rejected[0]

    def test_strict(self, monkeypatch):
        """KCL_STRICT takes both words; a word that it does not know is named, for look-ups to raise."""
        monkeypatch.setenv("KCL_STRICT", "hit, FAULT")
        assert settings.read().strict == {"hit", "fault"}
        assert not settings.read().strict_fault
        monkeypatch.setenv("KCL_STRICT", "hit,warm")
        assert "'warm'" in settings.read().strict_fault
        assert settings.read().rejected == (settings.read().strict_fault,)

    def test_promote(self, monkeypatch):
        """KCL_PROMOTE is background, exit or off; anything else counts as off and is named."""
        monkeypatch.setenv("KCL_PROMOTE", "off")
        assert settings.read().promote == "off"
        monkeypatch.setenv("KCL_PROMOTE", "sometimes")
        assert settings.read().promote == "off"
        assert "KCL_PROMOTE" in settings.read().rejected[0]
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
        monkeypatch.setenv("KCL_PROMOTE", "exit")
        assert settings.read().promote == "exit"
        monkeypatch.delenv("KCL_PROMOTE")
        assert settings.read().promote == "background"

    def test_report(self, monkeypatch):
        """KCL_REPORT asks for the table, the explanations or both; what is not understood does not, and is named."""
        for value, asked in (
            ("1", {"table"}),
            ("explain", {"explain"}),
            ("Explain, yes", {"table", "explain"}),
            ("0", set()),
        ):
            monkeypatch.setenv("KCL_REPORT", value)
            assert settings.read().report == asked
            assert not settings.read().rejected
        for value, asked, file in (
            ("kernels", {"kernels"}, None),
            ("json:/tmp/Report, 1.jsonl", set(), "/tmp/Report, 1.jsonl"),
            ("1,explain,json:/r", {"table", "explain"}, "/r"),
        ):
            monkeypatch.setenv("KCL_REPORT", value)
            assert (settings.read().report, settings.read().report_file) == (asked, file)
            assert not settings.read().rejected
        monkeypatch.setenv("KCL_REPORT", "1,json:here")
        assert (settings.read().report, settings.read().report_file) == ({"table"}, None)
        assert "absolute" in settings.read().rejected[0]
        monkeypatch.setenv("KCL_REPORT", "perhaps")
        assert not settings.read().report
        assert settings.read().rejected

    def test_relative_directory(self, monkeypatch):
        """A relative KCL_CACHE_DIR, which would be another place in each working directory, is ignored and named."""
        monkeypatch.setenv("KCL_CACHE_DIR", "cache")
        assert settings.read().cache_dir is None
        assert "KCL_CACHE_DIR" in settings.read().rejected[0]

    def test_read_anew(self, monkeypatch, tmp_path):
        """Variables are read when asked for, not at import."""
        monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path))
        assert settings.read().cache_dir == str(tmp_path)
        monkeypatch.delenv("KCL_CACHE_DIR")
        assert settings.read().cache_dir is None


class TestUserCacheDir:
    @pytest.mark.skipif(sys.platform != "linux", reason="platformdirs answers itself elsewhere")
    @pytest.mark.parametrize(
        "value", ["/somewhere/else", "relative", "", "  ", None, "/trailing/", "~/x"]
    )
    def test_as_platformdirs(self, monkeypatch, value):
        """The answer without platformdirs is the one that platformdirs gives, hence pytools and pyopencl."""
        import platformdirs

        if value is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", value)
        expected = platformdirs.user_cache_dir("pytools", "pytools")
        assert os.path.normpath(settings.user_cache_dir("pytools")) == os.path.normpath(expected)


class TestHome:
    @pytest.mark.parametrize("home", ["relative", "~", "", "/absolute"])
    def test_absolute(self, monkeypatch, home, tmp_path):
        """The home directory is an absolute path, also where HOME is none; then it is private and temporary."""
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.delenv("XDG_CACHE_HOME")
        private = str(tmp_path / f"kcl-{os.getuid()}")
        assert settings.home() == {"": "/", "/absolute": "/absolute"}.get(home, private)
        assert os.path.isabs(settings.user_cache_dir("kcl"))
        assert all(
            os.path.isabs(foreign.place(name).path or "/") for name in ("loopy", "pyopencl", "cuda")
        )


class TestSettings:
    def test_documented(self):
        """Every variable has its words on the page of variables, in order, and a short effect."""
        names = [setting.variable for setting in settings.SETTINGS]
        assert names == sorted(set(names))
        page = (ROOT / "doc" / "reference" / "environment.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (`KCL_\w+`|none) \| (`\w+`|never) \|", page, re.MULTILINE)
        assert rows == [
            (
                "none" if setting.file_only else f"`{setting.variable}`",
                "never" if setting.variable_only else f"`{setting.key}`",
            )
            for setting in settings.SETTINGS
        ]

    def test_of_file(self, monkeypatch):
        """A variable with the name of a setting that only the settings file can have is said, without its value."""
        monkeypatch.setenv("KCL_TRUSTED_KEYS", "a:secret")
        (said,) = settings.read().rejected
        assert said.startswith("KCL_TRUSTED_KEYS is not read: write trusted_keys into ")
        assert "secret" not in said
        assert settings.read().trusted_keys == ()

    def test_complete(self):
        """No KCL_ variable is read that has no row."""
        text = (ROOT / "kcl" / "base" / "settings" / "__init__.py").read_text()
        read = set(re.findall(r'"(KCL_[A-Z_]+)"', text))
        assert read == {setting.variable for setting in settings.SETTINGS} | {settings.RUN}


BY_PYTHON = object()  # a module that `python -m` has found
CONNECTION = ["/lib/ipykernel_launcher.py", "-f", "/run/kernel-1.json"]


@pytest.mark.parametrize(
    ("arguments", "main", "path", "name"),
    [
        (["run.py"], {"__file__": "/a/run.py"}, "/a/run.py", "run.py"),
        (["/lib/pkg/__main__.py"], {"__spec__": BY_PYTHON}, "/lib/pkg/__main__.py", "pkg"),
        (
            ["app.pyz"],
            {"__spec__": BY_PYTHON, "__file__": "app.pyz/__main__.py"},
            "/a/app.pyz",
            "app.pyz",
        ),
        (["/a/run.py"], {"__spec__": BY_PYTHON, "__file__": "/lib/loky.py"}, "/a/run.py", "run.py"),
        (["/tmp/tmp1.scr.py"], {"__file__": "/a/plot.py"}, "/a/plot.py", "plot.py"),
        (CONNECTION, {"__vsc_ipynb_file__": "/a/b.ipynb"}, "/a/b.ipynb", "b.ipynb"),
        (CONNECTION, {}, f"notebook {CONNECTION}", "notebook"),
        ([""], {}, "", ""),
        ([], {}, "", ""),
        (None, {}, "", ""),
    ],
)
def test_program(monkeypatch, arguments, main, path, name):
    """A program is told from others by its path; its name is that of the file, or of the package."""
    monkeypatch.delenv("PYTEST_XDIST_TESTRUNUID", raising=False)  # of a worker that runs this test
    monkeypatch.setattr(os, "getcwd", lambda: "/a")
    monkeypatch.setattr("sys.argv", arguments)
    module = types.ModuleType("__main__")
    vars(module).update(main)
    monkeypatch.setitem(sys.modules, "__main__", module)
    assert settings.program_path() == path
    assert settings.driver_name() == name


def test_notebook_of_jupyter(monkeypatch):
    """Jupyter says which notebook a process runs."""
    monkeypatch.setattr("sys.argv", CONNECTION)
    monkeypatch.setenv("JPY_SESSION_NAME", "/a/waves.ipynb")
    assert (settings.program_path(), settings.driver_name()) == ("/a/waves.ipynb", "waves.ipynb")


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
