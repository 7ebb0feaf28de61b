"""kcl.cli.output and the group: what all commands share."""

import importlib
import time

import click
import pytest
from commands import run

from kcl import cli
from kcl.base.settings import parsers
from kcl.base.text.tables import Column
from kcl.cli import output


class TestWords:
    @pytest.mark.parametrize(
        ("count", "words"),
        [
            *((0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (57_300, "57.3 kB")),
            *((999_960, "1.0 MB"), (2.5e9, "2.5 GB")),
        ],
    )
    def test_size(self, count, words):
        """Bytes are written with three digits and a decimal unit."""
        assert output.size(count) == words
        assert output.size(parsers.size(words)) == words

    @pytest.mark.parametrize("unit", ["k", "M", "G", "T", "P"])
    def test_size_as_given(self, unit):
        """A size that is given in a unit is printed as the same number of it."""
        assert output.size(parsers.size(f"2{unit}")) == f"2.0 {unit}B"
        assert parsers.size(f"2{unit}i") == parsers.size(f"2{unit}iB") > parsers.size(f"2{unit}B")

    @pytest.mark.parametrize(
        ("count", "words"),
        [
            *((0, "0 s"), (2e-6, "2.0 us"), (0.0123, "12 ms"), (1.25, "1.2 s")),
            *((90, "1.5 min"), (3 * 86400, "3.0 d")),
        ],
    )
    def test_seconds(self, count, words):
        """A span of time is written in the largest unit of which it is at least one."""
        assert output.seconds(count) == words

    def test_ago(self):
        """A moment is told by how long ago it was; none where there is none."""
        assert output.ago(time.time() - 121) == "2.0 min ago"
        assert output.ago(time.time() + 10) == "<1 s ago"
        assert output.ago(0.0) == output.date(0.0) == ""


def test_table(monkeypatch, capsys):
    """A table fits in the width that COLUMNS says; in a pipe all is printed."""
    for columns, path in (("", "/a/long/path/to/it"), ("20", "/a...path/to/it")):
        monkeypatch.setenv("COLUMNS", columns)
        output.table([Column("key"), Column("path", 0, "middle")], [("1b", "/a/long/path/to/it")])
        assert capsys.readouterr().out.splitlines()[1] == f"1b   {path}"


class TestGroup:
    @pytest.mark.parametrize("name", cli.COMMANDS)
    def test_commands(self, name):
        """Every command of the table is there, under the name of an attribute of its module, and has a help."""
        command = getattr(importlib.import_module(cli.COMMANDS[name]), name)
        assert isinstance(command, click.Command)
        assert "Exits with" in command.help  # every command says what its exit status means
        run(name, "--help")
        assert name in run("--help").stdout

    def test_imports(self, child):
        """A command imports its own file, and not another command's."""
        code = """
            import json, sys
            from click.testing import CliRunner
            from kcl.cli import main
            assert CliRunner().invoke(main, ["purge", "--dry-run"]).exit_code == 0
            found = [name for name in sys.modules if name.startswith(("kcl.cli.", "rich"))]
            print(json.dumps(sorted(found)))
            """
        assert child.json(code) == ["kcl.cli.output", "kcl.cli.purge"]
