"""Units that come from elsewhere than a plain recipe: cold, warm (without loopy where that can be), and uncached."""

import pytest
from beside import compared, programs

pytestmark = [pytest.mark.one_platform, pytest.mark.slow_cases(3)]

BYPASSED = {"a target of the user": "is code of the program, which no key holds"}
PROGRAMS = [
    one._replace(warm=one.title not in BYPASSED, bypass=BYPASSED.get(one.title, ""))
    for one in programs("recorded_cases.py")
]
test_recorded_cases = compared(PROGRAMS, "run")
