"""kcl.cli.output and the group: what all commands share."""

import importlib
import time

import click
import pytest
from commands import run

from kcl import cli
from kcl.base.settings import parsers
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
        assert output.format_size(count) == words
        assert output.format_size(parsers.size(words)) == words

    def test_units(self):
        for unit in "kMGTP":
            assert output.format_size(parsers.size(f"2{unit}")) == f"2.0 {unit}B"
            sizes = [parsers.size(f"2{unit}{end}") for end in ("i", "iB", "B")]
            assert sizes[0] == sizes[1] > sizes[2]

    @pytest.mark.parametrize(
        ("count", "words"),
        [
            *((0, "0 s"), (2e-6, "2.0 us"), (0.0123, "12 ms"), (1.25, "1.2 s")),
            *((90, "1.5 min"), (3 * 86400, "3.0 d")),
        ],
    )
    def test_seconds(self, count, words):
        assert output.format_seconds(count) == words

    def test_ago(self):
        assert output.format_ago(time.time() - 121) == "2.0 min ago"
        assert output.format_ago(time.time() + 10) == "<1 s ago"
        assert output.format_ago(0.0) == output.format_date(0.0) == ""


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
