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
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not faults", *chosen]
    environment = {**os.environ, "KCL_TEST_STRICT": "fault"}
    done = run_command(command, cwd=ROOT, env=environment, timeout=1500)
    well = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert done.returncode in well, done.stdout[-20_000:]
