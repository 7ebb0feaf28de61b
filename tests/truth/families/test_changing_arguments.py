"""Arguments that change before, beside and after a call, against Python alone, in a first and a second run."""

import pytest
from beside import check, programs, ran

PROGRAMS = programs("changing_arguments.py")
told = ran(PROGRAMS, "run")


@pytest.mark.one_platform
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_changing_arguments(program, told):
    """A program prints what it prints without kcl, whenever an argument changes and whatever keeps it.

    Where nothing that matters changes, later runs do without loopy.
    """
    check(program, told[program.title])
