"""kcl.frontends.loopy.callables.sources: the files of the program's code."""

import importlib
import sys
import zipfile

import pytest

from kcl.errors import UnknownInput
from kcl.frontends.loopy.callables import sources

FILES = {
    "lone.py": "import json, pytest\nimport near as n, package.inner\ndef f():\n    from far import N\n",
    "short.py": "import json; import near\nif 1: from far import *\n__import__('called')\n",
    "near.py": "",
    "far.py": "N = 1\n",
    "called.py": "",
    "package/__init__.py": "import called\n",
    "package/inner.py": "",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources.process, "began", lambda: 2**63)  # the files are of now
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.usefixtures("folder")
class TestParts:
    def test_lone_file(self, folder):
        """A lone file counts with the program's modules that it imports, and with no installed package; none runs."""
        before = sources.parts("lone")
        assert {*before} == {f"module {name}" for name in ("lone", "near", "far", "package")}
        assert not {"near", "far", "package"} & sys.modules.keys()
        for name in ("lone.py", "near.py"):
            (folder / name).write_text(f"{FILES[name]}# more\n")
            assert sources.parts("lone") != before
            (folder / name).write_text(FILES[name])
        assert sources.parts("lone") == before

    def test_an_edit_while_the_process_runs(self, monkeypatch):
        """Loaded code whose file was changed since the process began is not known."""
        importlib.import_module("near")
        monkeypatch.setattr(sources.process, "began", lambda: 0)
        with pytest.raises(UnknownInput, match="was changed after the process began"):
            sources.parts("near")
        del sys.modules["near"]

    def test_imports_anywhere_in_a_line(self):
        """An import counts wherever it stands in a line, also as a call with a name."""
        names = ("short", "near", "far", "called")
        assert {*sources.parts("short")} == {f"module {one}" for one in names}

    def test_archive(self, folder, monkeypatch):
        """A module in an archive counts by the archive."""
        found = []
        for number in (1, 2):
            with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
                archive.writestr("zipped/__init__.py", "")
                archive.writestr("zipped/inner.py", f"N = {number}\n")
            monkeypatch.syspath_prepend(folder / "packed.zip")
            found.append(sources.parts("zipped.inner"))
        assert [*found[0]] == ["module zipped"]
        assert found[0] != found[1]

    def test_folders_of_a_namespace(self, folder, monkeypatch):
        for name in ("one", "other"):
            (folder / name / "spaced").mkdir(parents=True)
            (folder / name / "spaced" / f"{name}.py").write_text("")
            monkeypatch.syspath_prepend(folder / name)
        importlib.import_module("spaced")
        before = sources.parts("spaced.one")
        for name in ("one", "other"):
            (folder / name / "spaced" / f"{name}.py").write_text("N = 1\n")
            after = sources.parts("spaced.one")
            assert after != before
            before = after
        del sys.modules["spaced"]

    def test_package(self, folder):
        """A package counts by all its files."""
        before = sources.parts("package.inner")
        assert [*before] == ["module package"]
        (folder / "package" / "inner.py").write_text("N = 2\n")
        assert sources.parts("package.inner") != before

    def test_no_file(self):
        """A module without a file has no parts."""
        assert sources.parts("a_module_of_nobody") == {}
