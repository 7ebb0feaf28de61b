"""Arguments that change before, beside and after a call, against Python alone, in a first and a second run."""

import pytest
from beside import compared, programs

pytestmark = pytest.mark.one_platform

PROGRAMS = programs("changing_arguments.py")
test_changing_arguments = compared(PROGRAMS, "run")
