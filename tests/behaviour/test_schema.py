"""What `--json` prints is what the reference says."""

import itertools
import json
import re

import click
import late_switching
import pytest
from commands import invoke
from printed import SCHEMA, differs

from kcl import cli, option

pytestmark = pytest.mark.one_platform


def printed(*arguments, codes=(0,)):
    result = invoke(*arguments, "--json")
    assert result.exit_code in codes, result.output
    return json.loads(result.stdout)


class TestSchema:
    def test_every_command(self):
        """Every command that takes --json has its place in the table, and no other."""
        context = click.Context(cli.main)
        commands = {name: cli.main.get_command(context, name) for name in cli.COMMANDS}
        options = {name: {one.name for one in command.params} for name, command in commands.items()}
        assert {name for name, names in options.items() if "as_json" in names} == SCHEMA.keys()

    def test_types(self):
        """Every type is one that is explained, or a table of the same command; every table is used."""
        for name, forms in SCHEMA.items():
            for form in forms:
                fields = itertools.chain(*form.tables.values())
                types = [form.type, *(field.type for field in fields)]
                used = {table for text in types for table in re.findall(r"<(\w*)>", text)}
                assert used == form.tables.keys(), name
                plain = {re.sub(r"list of | or null|<\w*>", "", text) for text in types}
                assert plain <= {"string", "number", "integer", "boolean", "object", ""}, name

    def test_filled(self, warm):
        """What the commands print of a cache that was used, damaged and told of late switches."""
        option.cache_dir(warm.child.cache)
        late_switching.leave("too late")
        address, entry = warm.binary_of("typed")
        assert differs("status", said := printed("status")) == []
        assert {row["kind"] for row in said["layers"]} == {"kcl", "below", "neighbour"}
        assert said["late"]
        assert differs("ls", listed := printed("ls")) == []
        assert listed
        for options in ([], ["--source", "--log"], ["--invoker"]):
            assert differs("show", printed("show", "control", *options)) == []
        assert differs("explain", explained := printed("explain")) == []
        assert any(one["changes"] for one in explained)
        for by in ("layer", "kernel,day"):
            assert differs("stats", found := printed("stats", "--by", by)) == []
            assert set(by.split(",")) < found[0].keys()
        warm.binaries.put(address, entry.pack()[:-1])
        for options in ([], ["--headers"]):
            assert differs("verify", said := printed("verify", *options, codes=(1,))) == []
            assert said["damaged"]

    def test_without_entries(self):
        for name in SCHEMA.keys() - {"show", "doctor", "report"}:
            assert differs(name, printed(name)) == [], name
        assert differs("env", printed("env", "--off", "binary", "--on", "pocl"), 1) == []

    def test_doctor(self, monkeypatch):
        """What the doctor prints, findings of all kinds among it."""
        monkeypatch.setenv("LOOPY_NO_CACHE", "sure")
        monkeypatch.setenv("KCL_CACHEDIR", "/scratch")
        assert differs("doctor", found := printed("doctor", codes=(1,))) == []
        assert {"ok", "warning", "problem"} <= {one["severity"] for one in found}
