"""Units that come from elsewhere than a plain recipe: cold, warm (without loopy where that can be), and uncached."""

from __future__ import annotations

import importlib.util

import pytest
from beside import check, programs, ran

PROGRAMS = programs("recorded_cases.py", warm=True)
told = ran(PROGRAMS, "run")


@pytest.mark.one_platform
@pytest.mark.slow_cases(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_recorded_cases(program, told):
    """The numbers are those of a run without a cache; the second run hits alone, and has a unit made only if asked."""
    if program.title.startswith("sympy") and not importlib.util.find_spec("sympy"):
        pytest.skip("sympy is not installed")
    check(program, told[program.title])
