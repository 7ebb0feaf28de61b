"""Launch COUNT kernels that no key can hold, each for the same reason.

python drive_bypassed.py COUNT REASON
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import kernels
import loopy as lp
import pyopencl as cl


def preamble(_info: Any) -> Any:
    """Yield a preamble of this program's own."""
    yield "60_bypassed", "/* of the program */"


def with_preamble(unit: Any) -> Any:
    """Hand loopy a preamble generator of the program."""
    return lp.register_preamble_generators(unit, [preamble])


@functools.cache
def twice() -> Any:
    """Return the class of a function that no kernel calls; pickles find it in this module."""

    class Twice(lp.ScalarCallable):
        """A function that no kernel calls."""

    Twice.__qualname__ = "Twice"
    globals()["Twice"] = Twice
    return Twice


def with_callable(unit: Any) -> Any:
    """Hand loopy a callable of a class of the program."""
    return lp.register_callable(unit, "twice", twice()("twice"))


def patched(unit: Any) -> Any:
    """Put a function of the program in the place of one of loopy's."""
    from loopy.target.c.codegen.expression import ExpressionToCExpressionMapper as Mapper

    if Mapper.map_sum.__module__ != __name__:
        own = Mapper.map_sum

        def map_sum(self: Any, *arguments: Any) -> Any:
            return own(self, *arguments)

        Mapper.map_sum = map_sum
    return unit


REASONS = {"preamble generator": with_preamble, "callable": with_callable, "patch": patched}


def main() -> None:
    count, bypass = int(sys.argv[1]), REASONS[sys.argv[2]]
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    arguments = kernels.Arguments(queue)
    for number in range(count):
        recipe, variant = kernels.case(number)
        bypass(recipe(variant)).executor(context)(queue, **arguments.of(number))
    print(arguments.checksum())


if __name__ == "__main__":
    main()
