"""Launch COUNT kernels of the family with loopy and pyopencl alone, as a driver without kcl does.

python drive_loopy.py COUNT
"""

from __future__ import annotations

import sys

import kernels
import pyopencl as cl


def main() -> None:
    count = int(sys.argv[1])
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    arguments = kernels.Arguments(queue)
    for number in range(count):
        recipe, variant = kernels.case(number)
        given = arguments.of(number)
        recipe(variant).executor(context)(queue, **given)
    print(arguments.checksum())


if __name__ == "__main__":
    main()
