"""Launch COUNT kernels of the family with loopy and pyopencl alone, as a driver without kcl does.

python drive_loopy.py COUNT [look]

With `look` every unit is looked into before it runs, as libraries do.
"""

from __future__ import annotations

import sys

import kernels
import pyopencl as cl


def main() -> None:
    count, looks = int(sys.argv[1]), "look" in sys.argv
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    arguments = kernels.Arguments(queue)
    for number in range(count):
        recipe, variant = kernels.case(number)
        given = arguments.of(number)
        unit = recipe(variant)
        if looks:
            hash(unit)
            assert unit.default_entrypoint.args
        unit.executor(context)(queue, **given)
    print(arguments.checksum())


if __name__ == "__main__":
    main()
