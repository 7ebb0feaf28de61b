"""Launch COUNT kernels of the family with kcl, as a driver does whose recipes are decorated.

python drive_kcl.py COUNT
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import kernels
import pyopencl as cl

import kcl


def launch(count: int, said: Callable[[str], None] = str) -> kernels.Arguments:
    """Launch as many kernels, saying when each call begins and ends; returns their arguments."""
    decorated = {recipe: kcl.kernel(recipe) for recipe, _, _ in kernels.FAMILY}
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    arguments = kernels.Arguments(queue)
    for number in range(count):
        recipe, variant = kernels.case(number)
        said(f"begin {number}")
        given = arguments.of(number)
        decorated[recipe](variant)(queue, **given)
        said(f"end {number}")
    return arguments


def main() -> None:
    print(launch(int(sys.argv[1])).checksum(), kcl.stats())


if __name__ == "__main__":
    main()
