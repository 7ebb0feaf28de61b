"""kcl.record.callables.sources: the files of the program's code."""

from __future__ import annotations

import pytest

from kcl.record.callables import sources

FILES = {
    "lone.py": "import json, pytest\nimport near as n, package.inner\ndef f():\n    from far import N\n",
    "near.py": "",
    "far.py": "N = 1\n",
    "beside.py": "",
    "package/__init__.py": "import beside\n",
    "package/inner.py": "",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with modules of a program."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources.process, "began", lambda: 2**63)  # the files are of now
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.usefixtures("folder")
class TestParts:
    def test_lone_file(self):
        """A lone file counts with the program's modules that it imports, and with no installed package."""
        assert {*sources.parts("lone")} == {
            f"module {n}" for n in ("lone", "near", "far", "package")
        }

    def test_package(self, folder):
        """A package counts by all its files."""
        before = sources.parts("package.inner")
        assert [*before] == ["module package"]
        (folder / "package" / "inner.py").write_text("N = 2\n")
        assert sources.parts("package.inner") != before

    def test_no_file(self):
        """A module without a file has no parts."""
        assert sources.parts("a_module_of_nobody") == {}
