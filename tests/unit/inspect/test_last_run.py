"""kcl.inspect.last_run: the last run of a driver, from the journal and the entries."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kcl import cli, option
from kcl.inspect.last_run import last_run


def test_unknown():
    """Where nothing ran there is no run."""
    assert last_run() is None


@pytest.mark.one_platform
class TestRun:
    def test_counts(self, filled):
        """Each look-up of the last run is in a row, and the counters say the same; the cache is what it holds."""
        option.cache_dir(filled.project.child.cache)
        run = last_run("driver.py")
        looks = [look for row in run.rows for look in row.looks]
        for row in run.layers:
            assert sum(look.times for look in looks if look.layer == row["layer"]) == row["hits"] > 0
        assert run.total("misses") == 0
        assert run.told == ()
        assert all(held.entries and held.size and held.places for held in run.held)

    def test_sizes(self, filled):
        """A layer has the size that `kcl status` says: all bytes of its files."""
        option.cache_dir(filled.project.child.cache)
        rows = json.loads(CliRunner().invoke(cli.main, ["status", "--json"]).output)["layers"]
        sizes = {row["layer"]: row["bytes"] for row in rows if row["kind"] == "kcl"}
        assert {held.layer: held.size for held in last_run("driver.py").held} == sizes

    def test_missed(self, warm):
        """A run that missed says why, as `kcl explain` does."""
        warm.edit("driver.py", "parameter(9)", "parameter(10)")
        warm.run("inputs")
        option.cache_dir(warm.child.cache)
        run = last_run()
        said = [change.sentence for one in run.told for change in one.changes]
        assert "parameter factor: 9 -> 10" in said
        (missed,) = [row for row in run.rows if any(look.outcome == "miss" for look in row.looks)]
        assert missed.label == "parameter(factor=10)"
