"""Launch COUNT kernels of the family with kcl, as a driver does whose recipes are decorated.

python drive_kcl.py COUNT
"""

from __future__ import annotations

import sys

import kernels
import pyopencl as cl

import kcl


def main() -> None:
    count = int(sys.argv[1])
    decorated = {recipe: kcl.kernel(recipe) for recipe, _, _ in kernels.FAMILY}
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    arguments = kernels.Arguments(queue)
    for number in range(count):
        recipe, variant = kernels.case(number)
        decorated[recipe](variant)(queue, **arguments.of(number))
    print(arguments.checksum(), kcl.stats())


if __name__ == "__main__":
    main()
