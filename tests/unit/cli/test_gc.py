"""`kcl gc`: what is above the bound goes."""

import json
import os
import re

import pytest
from commands import run

from kcl.cache import places
from kcl.inspect import inventory

pytestmark = pytest.mark.one_platform


def files():
    return sum(len(names) for _place, _folders, names in os.walk(places.binaries()))


@pytest.mark.usefixtures("cache")
def test_nothing_to_do(monkeypatch):
    for size, words in (("2G", "of at most 2.0 GB"), ("0", "have no bound")):
        monkeypatch.setenv("KCL_MAX_SIZE", size)
        done = run("gc")
        assert words in done.output
        assert "nothing to remove" in done.output


@pytest.mark.usefixtures("copy")
def test_removes():
    listed, before = len(list(inventory.entries())), files()
    dry = ("gc", "--max-size", "20K", "--dry-run")
    (count,) = re.findall(r"^(\d+) entr.* would be removed", run(*dry).output, re.MULTILINE)
    found = json.loads(run(*dry, "--json").output)
    assert found["before"] > found["max_size"] == 20_000
    assert (found["entries"], found["bytes"] > 0) == (int(count), True)
    assert files() == before
    assert f"{count} entries with " in run("gc", "--max-size", "20K").output
    assert len(list(inventory.entries())) == listed - int(count)
    assert files() < before
    assert re.search(r"^\d+ entries were removed: kcl gc$", run("stats").output, re.MULTILINE)


def test_wrong_size():
    assert "write 500M, 2G, or 0" in run("gc", "--max-size", "many", code=2).output
