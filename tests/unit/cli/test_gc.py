"""`kcl gc`: what is above the bound goes."""

import json
import os
import re
import time

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
            r"^\d+ entries were removed: kcl gc$", CliRunner().invoke(main, ["stats"]).output, re.MULTILINE
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
        assert "write 500M or 2G" in done.output

    @pytest.mark.usefixtures("cache")
    def test_no_bound(self, monkeypatch):
        """No bound, nothing to do."""
        monkeypatch.setenv("KCL_MAX_SIZE", "0")
        done = gc()
        assert "have no bound" in done.output
        assert "removed" not in done.output

    def test_leftovers(self):
        """The stores of an earlier kcl go a week after their last change; status counts them, those of a later stay."""
        folders = [os.path.dirname(places.binaries()), places.dictionaries()]
        names = {
            "kcl-binary-v0": False,
            "kcl-binary-v9": True,
            "pdict-v4-kcl-generated-v1-3.9.1.sqlite": False,
            "pdict-v5-kcl-generated-v0-3.9.1.sqlite": False,
            "pdict-v5-kcl-generated-v9-3.9.1.sqlite": True,
            "kcl-generated-v0": False,
        }
        for name in names:
            folder = folders["binary" not in name]
            os.makedirs(folder, mode=0o700, exist_ok=True)
            path = os.path.join(folder, name)
            if not name.endswith(".sqlite"):
                os.mkdir(path, 0o700)
                path = os.path.join(path, "entry")
            with open(path, "w") as stream:
                stream.write("x" * 1000)
        assert "stores of an earlier kcl take 4.0 kB" in CliRunner().invoke(main, ["status"]).output
        assert "earlier kcl" not in gc().output
        age(folders[0])
        age(folders[1])
        assert "4 stores of an earlier kcl with 4.0 kB would be removed" in gc("--dry-run").output
        assert "4 stores of an earlier kcl with 4.0 kB are removed" in gc().output
        assert {name for folder in folders for name in os.listdir(folder)} == {
            name for name, stays in names.items() if stays
        }


def age(folder, days=8):
    """Make all below a folder look as if it was written so many days ago."""
    for place, folders, names in os.walk(folder):
        for name in folders + names:
            os.utime(os.path.join(place, name), (time.time() - 86400 * days,) * 2, follow_symlinks=False)
