"""Bad bundles, made by a seed: no exception, no entry that is not one of the good bundle, and bounded memory.

KCL_TRUTH_BUNDLES is the number in `make truth`, KCL_SLOW_SEED the seed.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import bundled
import fuzzed_bundles
import pytest
from harness import PLATFORMS

pytestmark = pytest.mark.one_platform
MANY = int(os.environ.get("KCL_TRUTH_BUNDLES", "20000"))


@pytest.mark.parametrize("count", [400, pytest.param(MANY, marks=pytest.mark.slow)])
def test_bad_bundles(child, platform_name, count):
    """Whatever a bundle holds, loading raises nothing, brings nothing wrong, and stays below 256 MB."""
    file = child.directory / "good.kclb"
    seed = os.environ.get("KCL_SLOW_SEED", "31")

    def run(script, *arguments, **variables):
        done = subprocess.run(
            [sys.executable, pathlib.Path(script), *map(str, arguments)],
            env=child.environment(**variables),
            cwd=child.directory,
            text=True,
            capture_output=True,
            timeout=3000,
        )
        assert done.returncode == 0, f"seed {seed}:\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])

    run(bundled.__file__, PLATFORMS[platform_name], "save", file)
    other = {"XDG_CACHE_HOME": str(child.directory / "other")}
    tried, came, memory = run(fuzzed_bundles.__file__, file, seed, count, **other)
    print(f"seed {seed}: {tried}, entries that came: {came}, {memory} MB")
    assert sum(tried.values()) == count
    assert came["flipped"] == came.get("cut", 0) == 0
    assert sum(came.values()) > 0
    assert memory < 256
    said = run(bundled.__file__, PLATFORMS[platform_name], "hit", file, KCL_STRICT="hit", **other)
    assert {tuple(one) for one in said["looks"]} == {("generator", "hit"), ("binary", "hit")}
