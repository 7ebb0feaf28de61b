"""kcl.inspect.packages: the releases of what generates and runs kernels, and what their files are."""

import re

import pytest
from harness import ROOT
from loopies import EXPRESSION, Loopy

from kcl.inspect import packages

PRINT = "import json; from kcl.inspect import doctor, packages; print(json.dumps({}))"
HERE = PRINT.format("packages.installed()['loopy']")
FINDINGS = PRINT.format("[finding[:2] for finding in doctor.installed()]")


def asked(child, loopy, code=HERE):
    return child.json(code, PYTHONPATH=f"{loopy.path}:{child.environment()['PYTHONPATH']}")


class TestInstalled:
    def test_here(self):
        """Each package here is a wheel of a release that these tests run with, so they are the tested ones."""
        found = packages.installed()
        assert set(found) == set(packages.TESTED)
        assert all(packages.is_tested(name, *found[name]) for name in found), found

    @pytest.mark.parametrize(
        ("place", "words"),
        [
            ("editable", r"editable in the folder .*/source/loopy"),
            ("checkout", r"(editable in|of) the folder .*/source/loopy"),
            ("archive", r"in the archive .*/modules\.zip"),
        ],
    )
    def test_places(self, child, tmp_path, place, words):
        _version, kind = asked(child, Loopy(tmp_path / place, place))
        assert re.fullmatch(words, kind)

    def test_edited(self, child, tmp_path):
        """An edited file of a wheel is named, and kcl says what it misses there: nothing."""
        loopy = Loopy(tmp_path / "wheel", "wheel")
        assert asked(child, loopy)[1] == packages.WHEEL
        with (loopy.folder / EXPRESSION).open("a") as stream:
            stream.write("# new\n")
        assert asked(child, loopy)[1] == f"a wheel with edited files: {EXPRESSION}"
        words = "kcl's tests do not run with this loopy; nothing that kcl needs is missing"
        assert asked(child, loopy, FINDINGS)[-1] == ["note", words]

    @pytest.mark.parametrize(
        ("added", "words"),
        [
            ("\nimport no_such_module\n", "the import fails: ModuleNotFound"),
            ("\ndel TranslationUnit\n", "this loopy has no TranslationUnit"),
        ],
    )
    def test_missing(self, child, tmp_path, added, words):
        loopy = Loopy(tmp_path / "wheel", "wheel")
        with (loopy.folder / "loopy/__init__.py").open("a") as stream:
            stream.write(added)
        severity, said = asked(child, loopy, FINDINGS)[-1]
        assert severity == "warning"
        assert words in said


def test_releases():
    """The releases are those of the metadata and of the page of compatibility."""
    setup = (ROOT / "setup.py").read_text()
    page = (ROOT / "doc" / "reference" / "compatibility.md").read_text()
    for name, releases in packages.TESTED.items():
        for release in releases:
            assert release in page or f'"{name}>={release}' in setup, (name, release)
