"""tools/soak.py: one cache directory under all that can happen, at once."""

import json
import os
import sys

import pytest
from harness import ROOT, run_command

sys.path.insert(0, str(ROOT / "tools"))

import soak


@pytest.mark.parametrize(
    ("name", "launches", "flat"),
    [("memory", 1999, None), ("memory", 2000, False), ("descriptors", 1, False)],
)
def test_growth(name, launches, flat):
    """Memory that grows is a fault once there were launches enough to fill it, however long they took."""
    values = [*[0.0] * 50, *[1e9] * 50]
    assert soak.compare(name, values, launches)["flat"] is flat
    assert soak.compare(name, [1.0] * 100, 2000)["flat"] is True


@pytest.mark.slow
def test_sample(tmp_path):
    """Twenty seconds: no wrong number, no exception, no process left, and hits afterwards."""
    out = tmp_path / "soak.json"
    command = [sys.executable, ROOT / "tools" / "soak.py", "--minutes", "0.34", "--out", out]
    done = run_command(command, env=os.environ, timeout=600)
    assert out.exists(), done.stderr
    found = json.loads(out.read_text())
    assert found["format"] == "kcl soak 1"
    good = {"wrong": [], "exceptions": [], "left": 0, "hits": True}
    assert {name: found[name] for name in good} == good, done.stdout
    assert all((found["launches"], found["processes"], found["faults"]))
    assert set(found["series"]) == {"descriptors", "memory", "disk", "processes"}
    # The others are not flat, as long as everything is new.
    assert found["series"]["descriptors"]["flat"]
