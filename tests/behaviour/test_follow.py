"""tools/follow.py: through how many files the dtypes of a call and the generated code go, and how often they return."""

import re
import subprocess
import sys

import pytest
from harness import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.one_platform]


def test_ways(child):
    """A maintainer follows the dtypes through six files, on a miss too, and the code through seven."""
    command = [sys.executable, str(ROOT / "tools" / "follow.py")]
    done = subprocess.run(command, env=child.environment(), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(\w+ \w+): (\d+) files, (\d+) returns", done.stdout, re.MULTILINE)
    ways = {way: (int(files), int(returns)) for way, files, returns in found}
    assert ways.keys() == {"cold dtypes", "warm dtypes", "warm code"}
    assert all(files <= (7 if way == "warm code" else 6) for way, (files, _returns) in ways.items())
    assert max(returns for _files, returns in ways.values()) <= 2
