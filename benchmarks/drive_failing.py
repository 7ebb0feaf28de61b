"""Build texts that do not compile, as programs do that probe a compiler; a program of pyopencl alone.

python drive_failing.py COUNT [PLATFORM]
"""

from __future__ import annotations

import sys

import pyopencl as cl

TEXT = "kernel void probed%d(global float *x) { x[get_global_id(0)] = wobble(%d); }"


def main() -> None:
    """Build COUNT texts, and print how many of them were refused."""
    wanted = sys.argv[2] if len(sys.argv) > 2 else "Portable Computing Language"
    platform = next(one for one in cl.get_platforms() if one.name == wanted)
    context = cl.Context(platform.get_devices()[:1])
    refused = 0
    for number in range(int(sys.argv[1])):
        try:
            cl.Program(context, TEXT % (number, number)).build()
        except cl.RuntimeError:
            refused += 1
    print(refused)


if __name__ == "__main__":
    main()
