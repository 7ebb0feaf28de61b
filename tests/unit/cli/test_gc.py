"""`kcl gc`: what is above the bound goes."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from kcl.cache import places
from kcl.cli import main


def gc(*arguments):
    return CliRunner().invoke(main, ["gc", *arguments])


class TestGc:
    @pytest.mark.usefixtures("cache")
    def test_within(self):
        """Nothing goes where all fits."""
        done = gc()
        assert done.exit_code == 0
        assert "of at most 2.1 GB" in done.output
        assert "removed" not in done.output

    @pytest.mark.usefixtures("copy")
    def test_removes(self):
        """A dry run shows what would go; then it goes."""
        shown = gc("--max-size", "20K", "--dry-run")
        assert "would be removed" in shown.output
        files = sum(len(names) for _place, _folders, names in os.walk(places.binaries()))
        assert files > 1
        done = gc("--max-size", "20K")
        assert done.exit_code == 0, done.output
        assert "are removed" in done.output
        assert sum(len(names) for _place, _folders, names in os.walk(places.binaries())) < files

    def test_wrong_size(self):
        """What is no size is refused."""
        done = gc("--max-size", "many")
        assert done.exit_code == 2
        assert "write 500M or 2G" in done.output

    @pytest.mark.usefixtures("cache")
    def test_no_bound(self, monkeypatch):
        """No bound, nothing to do."""
        monkeypatch.setenv("KCL_MAX_SIZE", "0")
        done = gc()
        assert "have no bound" in done.output
        assert "removed" not in done.output

    @pytest.mark.usefixtures("copy")
    def test_age(self):
        """Another age than that of the settings."""
        assert "would be removed" in gc("--max-age", "0.001s", "--dry-run").output
        assert "removed" not in gc("--max-age", "1d", "--dry-run").output
        assert gc("--max-age", "old").exit_code == 2
