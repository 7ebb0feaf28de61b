"""`kcl stats`: the look-ups of earlier processes, added up."""

import json

import pytest
from commands import run

from kcl.inspect.history import journal

pytestmark = pytest.mark.one_platform


@pytest.mark.usefixtures("cache")
def test_by_layer(filled):
    head, generator, binary = run("stats").output.splitlines()
    counted = ["layer", "hits", "misses", "bypassed", "errors", "hit", "rate", "spent", "saved"]
    assert head.split() == counted
    assert generator.split()[0] == "generator"
    hits = filled.second.said["stats"]["binary"]["hits"]
    misses = filled.cold.said["stats"]["binary"]["misses"]
    rate = f"{100 * hits / (hits + misses):.0f}"
    assert binary.split()[:7] == ["binary", str(hits), str(misses), "0", "0", rate, "%"]


@pytest.mark.usefixtures("cache")
def test_by_several():
    found = json.loads(run("stats", "--by", "kernel,layer", "--json").output)
    assert found[0].keys() == {"kernel", "layer", *journal.COUNTERS}
    (one,) = [row for row in found if (row["kernel"], row["layer"]) == ("typed", "binary")]
    assert (one["hits"], one["misses"]) == (1, 1)
    days = json.loads(run("stats", "--by", "day", "--json").output)
    assert sum(row["hits"] for row in days) == sum(row["hits"] for row in found)


def test_wrong():
    assert "none of day, layer, kernel" in run("stats", "--by", "week", code=2).output


@pytest.mark.usefixtures("copy")
def test_reset():
    run("stats", "--reset")
    assert run("stats").output == "no look-ups are recorded\n"
    assert journal.last_misses() == []
