"""`kcl report`: the last run as text, JSON or a page."""

import json

import pytest
from click.testing import CliRunner
from printed import differs

from kcl import cli

pytestmark = pytest.mark.one_platform


def kcl(*words, code=0):
    """Run a command in this process and return what it prints."""
    result = CliRunner().invoke(cli.main, list(words))
    assert result.exit_code == code, result.output
    return result.output


class TestReport:
    def test_nothing(self):
        """Where nothing ran the command says so, and ends with 1."""
        assert kcl("report", code=1) == "no run is known\n"

    @pytest.mark.usefixtures("cache")
    def test_unknown_driver(self):
        """A driver that never ran is named."""
        assert kcl("report", "never.py", code=1) == "no run of 'never.py' is known\n"

    @pytest.mark.usefixtures("cache")
    def test_text(self):
        """The text has the layers, and each kernel with how its look-ups ended, in 80 columns."""
        said = kcl("report", "driver.py")
        assert said.startswith("driver.py, process ")
        lines = said.splitlines()
        (parameter,) = [line.split() for line in lines if line.startswith("parameter(factor=9)")]
        assert parameter[1:3] == ["hit", "hit"]
        assert max(map(len, lines)) <= 80

    def test_missed(self, copy, monkeypatch):
        """What missed is explained; the lines fit where `COLUMNS` says a width."""
        copy.edit("driver.py", "parameter(9)", "parameter(10)")
        copy.run("inputs")
        kcl("flush")  # what a helper completes meanwhile would differ between two reports
        said = kcl("report")
        assert "parameter(factor=10), generator layer: miss\n" in said
        assert "  parameter factor: 9 -> 10\n" in said
        assert differs("report", json.loads(kcl("report", "--json"))) == []
        monkeypatch.setenv("COLUMNS", "50")
        narrow = kcl("report")
        assert narrow.split("ago", 1)[1].split() == said.split("ago", 1)[1].split()
        assert all(len(line) <= 50 or " " not in line.strip() for line in narrow.splitlines())

    @pytest.mark.usefixtures("cache")
    def test_html(self, tmp_path):
        """`--html` writes a file and names it; `-` is stdout."""
        path = tmp_path / "page.html"
        assert kcl("report", "driver.py", "--html", str(path)) == f"written: {path}\n"
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<!doctype html>")
        assert kcl("report", "driver.py", "--html", "-").startswith("<!doctype html>")

    @pytest.mark.usefixtures("cache")
    def test_no_place(self, tmp_path):
        """A file that cannot be written is an error in one line."""
        said = kcl("report", "--html", str(tmp_path / "none" / "page.html"), code=1)
        assert said.count("\n") == 1
        assert "No such file" in said
