"""Under `KCL_STRICT=fault` tests pass that inject no fault: kcl meets none of its own making."""

import os
import random
import sys

import pytest
import slow
from harness import ROOT, run_command

FILES = 6


@pytest.mark.slow
def test_sample():
    """The fast tests of a few modules, chosen by the seed, pass."""
    files = sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
    chosen = random.Random(slow.seed()).sample(files, FILES)
    done = run_command(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not faults", *map(str, chosen)],
        cwd=ROOT,
        env={**os.environ, "KCL_TEST_STRICT": "fault"},
        timeout=1500,
    )
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), done.stdout[
        -20_000:
    ]
