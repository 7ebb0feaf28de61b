"""`kcl gc`: what is above the bound goes."""

import json
import os
import re

import pytest
from click.testing import CliRunner

from kcl.cache import places
from kcl.cli import main
from kcl.inspect import inventory


def gc(*arguments):
    return CliRunner().invoke(main, ["gc", *arguments])


@pytest.mark.one_platform
class TestGc:
    @pytest.mark.usefixtures("cache")
    def test_within(self):
        """Nothing goes where all fits."""
        done = gc()
        assert done.exit_code == 0
        assert "of at most 2.0 GB" in done.output
        assert "nothing to remove" in done.output
        assert "removed" not in done.output

    @pytest.mark.usefixtures("copy")
    def test_removes(self):
        """A dry run shows what would go; then it goes."""
        listed = len(list(inventory.entries()))
        shown = gc("--max-size", "20K", "--dry-run")
        count = int(re.search(r"^(\d+) entr.* would be removed", shown.output, re.MULTILINE)[1])
        assert "nothing to remove" not in shown.output
        files = sum(len(names) for _place, _folders, names in os.walk(places.binaries()))
        assert files > 1
        done = gc("--max-size", "20K")
        assert done.exit_code == 0, done.output
        assert "are removed" in done.output
        assert len(list(inventory.entries())) == listed - count
        assert sum(len(names) for _place, _folders, names in os.walk(places.binaries())) < files
        assert re.search(
            r"^\d+ entries were removed: kcl gc$",
            CliRunner().invoke(main, ["stats"]).output,
            re.MULTILINE,
        )

    @pytest.mark.usefixtures("copy")
    def test_json(self):
        """As JSON: what the entries took, and what would go."""
        found = json.loads(gc("--max-size", "20K", "--dry-run", "--json").output)
        assert found["before"] > found["max_size"] == 20_000
        assert found["entries"] > 0 < found["bytes"]

    def test_wrong_size(self):
        """What is no size is refused."""
        done = gc("--max-size", "many")
        assert done.exit_code == 2
        assert "write 500M, 2G, or 0" in done.output

    @pytest.mark.usefixtures("cache")
    def test_no_bound(self, monkeypatch):
        """No bound, nothing to do."""
        monkeypatch.setenv("KCL_MAX_SIZE", "0")
        done = gc()
        assert "have no bound" in done.output
        assert "removed" not in done.output
