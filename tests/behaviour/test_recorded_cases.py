"""Units that come from elsewhere than a plain recipe: cold, warm (without loopy where that can be), and uncached."""

import pytest
from beside import check, programs, ran

BYPASSED = {"a target of the user": "is code of the program, which no key holds"}
PROGRAMS = [
    one._replace(warm=one.title not in BYPASSED, bypass=BYPASSED.get(one.title, ""))
    for one in programs("recorded_cases.py")
]
told = ran(PROGRAMS, "run")


@pytest.mark.one_platform
@pytest.mark.slow_cases(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_recorded_cases(program, told):
    """The numbers are those of a run without a cache; the second run hits alone, and has a unit made only if asked."""
    check(program, told[program.title])
